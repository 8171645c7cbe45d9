from __future__ import annotations

import time
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings

from tests.papers.child import ask, hold
from tests.papers.conftest import Child
from webapp.papers import limiter
from webapp.papers.models import ArxivSlot


def test_several_processes_ask_one_at_a_time_and_not_too_soon(
    processes: type[Child], settings: Settings
) -> None:
    settings.ARXIV_SECONDS = 1
    children = [processes(ask, 2) for _ in range(3)]
    # monotonic() counts from the start of the machine, so processes can be compared.
    turns = sorted(child.said() for child in children for _ in range(2))
    for (_, ended), (began, _) in pairwise(turns):
        assert began - ended >= 0.99


def test_a_request_keeps_its_place_and_a_killed_holder_loses_it(
    processes: type[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "LEASE", 4.0)
    holder = processes(hold)
    assert holder.said() == "held"
    waiting = processes(ask, 1)
    time.sleep(5)
    assert waiting.process.is_alive()  # the lease was renewed
    holder.kill()
    assert waiting.said()


@pytest.mark.django_db
def test_the_place_is_leased_for_less_than_a_restart_may_take(settings: Settings) -> None:
    assert limiter.LEASE <= 10  # see BACK_WITHIN in tests/faults/test_up.py
    settings.ARXIV_SECONDS = 3
    with limiter.slot(timeout=0):
        row = ArxivSlot.objects.annotate(now=Now()).get()
        assert row.lease
        lease = (row.leased_until - row.now).total_seconds()
        assert limiter.LEASE - 2 < lease <= limiter.LEASE
    row = ArxivSlot.objects.annotate(now=Now()).get()
    assert row.lease == ""
    assert 1 < (row.free_at - row.now).total_seconds() <= 3


@pytest.mark.django_db
def test_a_pause_holds_everybody_back_and_is_never_shortened(settings: Settings) -> None:
    settings.ARXIV_SECONDS = 0
    limiter.pause(30)
    limiter.pause(1)
    began = time.monotonic()
    with pytest.raises(limiter.SlotTakenError) as busy, limiter.slot(timeout=5):
        pytest.fail("the place was given away")
    assert time.monotonic() - began < 4  # it is known at once that 5 s do not suffice
    assert 28 < busy.value.seconds <= 30


@pytest.mark.django_db
def test_an_error_in_the_request_gives_the_place_back(settings: Settings) -> None:
    settings.ARXIV_SECONDS = 0
    with pytest.raises(RuntimeError), limiter.slot(timeout=0):
        raise RuntimeError
    with limiter.slot(timeout=1):
        pass


@pytest.mark.django_db
def test_a_place_that_was_lost_is_not_given_back_twice(settings: Settings) -> None:
    settings.ARXIV_SECONDS = 0
    with limiter.slot(timeout=0):
        ArxivSlot.objects.update(lease="another", leased_until=Now() + timedelta(seconds=50))
    assert ArxivSlot.objects.get().lease == "another"
    assert connection.in_atomic_block  # the test's own transaction, nothing of the limiter's

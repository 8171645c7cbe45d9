from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from tests.papers.child import ask, hold
from tests.papers.conftest import Child
from tests.processes import wait_for
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
    first = ArxivSlot.objects.get().leased_until
    wait_for(ArxivSlot.objects.filter(leased_until__gt=first).exists, "a renewal")
    assert waiting.process.is_alive()
    holder.kill()
    assert waiting.said()


@pytest.mark.django_db
def test_the_place_is_leased_for_less_than_a_restart_may_take(settings: Settings) -> None:
    assert limiter.LEASE <= 10  # see BACK_WITHIN in tests/faults/test_up.py
    settings.ARXIV_SECONDS = 3000
    began = timezone.now() - timedelta(milliseconds=1)  # to which SQLite's clock is cut
    with limiter.slot(timeout=0):
        row = ArxivSlot.objects.get()
        assert row.lease
        lease = timedelta(seconds=limiter.LEASE)
        assert began < row.leased_until - lease < timezone.now()
    ended = ArxivSlot.objects.get()
    assert ended.lease == ""
    assert row.leased_until - lease <= ended.free_at - timedelta(seconds=3000) < timezone.now()


@pytest.mark.django_db
def test_a_pause_holds_everybody_back_and_is_never_shortened(settings: Settings) -> None:
    settings.ARXIV_SECONDS = 0
    limiter.pause(7200)
    limiter.pause(1)
    # It is known at once that an hour does not suffice.
    with pytest.raises(limiter.SlotTakenError) as busy, limiter.slot(timeout=3600):
        pytest.fail("the place was given away")
    assert 3600 < busy.value.seconds <= 7200


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

from __future__ import annotations

import threading
import time
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings

from tests.papers.conftest import Processes
from webapp.papers import limiter
from webapp.papers.models import ArxivSlot


def test_several_processes_ask_one_at_a_time_and_not_too_soon(processes: Processes) -> None:
    processes.environment["ASSAY_ARXIV_SECONDS"] = "1"
    said: list[dict[str, float]] = []
    lock = threading.Lock()

    def run() -> None:
        answers = processes.finish("ask", "2")
        with lock:
            said.extend(answers)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # monotonic() counts from the start of the machine, so processes can be compared.
    said.sort(key=lambda turn: turn["began"])
    assert len(said) == 6
    for before, after in pairwise(said):
        assert after["began"] - before["ended"] >= 0.99


def test_a_killed_holder_loses_the_place_when_its_lease_ends(processes: Processes) -> None:
    holder = processes.start("hold")
    assert holder.stdout is not None
    assert holder.stdout.readline() == '"held"\n'
    holder.kill()
    holder.wait()
    waiting = processes.start("ask", "1")
    time.sleep(1.5)
    assert waiting.poll() is None  # the lease stands
    # Let the lease's time pass without waiting for a minute and a half.
    ArxivSlot.objects.update(held_until=Now())
    said, _ = waiting.communicate(timeout=20)
    assert "began" in said


@pytest.mark.django_db
def test_the_lease_outlives_the_longest_request(settings: Settings) -> None:
    from webapp.papers import fetch

    assert limiter.LEASE > fetch.TOTAL_SECONDS + 10
    settings.ARXIV_SECONDS = 3
    with limiter.place(patience=0):
        row = ArxivSlot.objects.annotate(now=Now()).get()
        assert row.holder
        lease = (row.held_until - row.now).total_seconds()
        assert limiter.LEASE - 2 < lease <= limiter.LEASE
    row = ArxivSlot.objects.annotate(now=Now()).get()
    assert row.holder == ""
    assert 2.9 < (row.free_at - row.now).total_seconds() <= 3


@pytest.mark.django_db
def test_a_pause_holds_everybody_back_and_is_never_shortened(settings: Settings) -> None:
    settings.ARXIV_SECONDS = 0
    limiter.pause(30)
    limiter.pause(1)
    began = time.monotonic()
    with pytest.raises(limiter.BusyError) as busy, limiter.place(patience=5):
        pytest.fail("the place was given away")
    assert time.monotonic() - began < 1  # it is known at once that 5 s do not suffice
    assert 28 < busy.value.seconds <= 30


@pytest.mark.django_db
def test_an_error_in_the_request_gives_the_place_back(settings: Settings) -> None:
    settings.ARXIV_SECONDS = 0
    with pytest.raises(RuntimeError), limiter.place(patience=0):
        raise RuntimeError
    with limiter.place(patience=1):
        pass


@pytest.mark.django_db
def test_a_place_that_was_lost_is_not_given_back_twice(settings: Settings) -> None:
    settings.ARXIV_SECONDS = 0
    with limiter.place(patience=0):
        ArxivSlot.objects.update(holder="another", held_until=Now() + timedelta(seconds=50))
    assert ArxivSlot.objects.get().holder == "another"
    assert connection.in_atomic_block  # the test's own transaction, nothing of the limiter's

"""Two workers at the same moment do not exceed a limit by one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.db import connection

from tests.readers.test_at_once import at_once, both_wait
from webapp.core import leases
from webapp.core.database import exclusive
from webapp.papers.models import Paper
from webapp.summaries import budget, queue
from webapp.summaries.client import Server
from webapp.summaries.models import ModelCall, Summary

pytestmark = pytest.mark.django_db(transaction=True)


def requested(paper: Paper, *languages: str) -> list[Summary]:
    for language in languages:
        queue.request([paper], language, Server("http://localhost/", "small", ""))
    return list(Summary.objects.order_by("pk"))


def test_two_workers_take_one_place(monkeypatch: pytest.MonkeyPatch, paper: Paper) -> None:
    one, other = requested(paper, "en", "zh")
    both_wait(monkeypatch, leases, "uuid4")  # which is called between counting and taking
    at_once(lambda: queue.take(one.pk, most=1), lambda: queue.take(other.pk, most=1))
    assert Summary.objects.filter(state=Summary.State.RUNNING).count() == 1


def test_two_workers_spend_one_request(
    monkeypatch: pytest.MonkeyPatch, settings: Any, paper: Paper
) -> None:
    settings.SUMMARY_DAILY_CALLS = 1
    (one,) = requested(paper, "en")
    both_wait(monkeypatch, budget, "spent_today")

    def reserve() -> None:
        with suppress(budget.SpentError):
            budget._reserve(one, "small", 10)

    at_once(reserve, reserve)
    assert ModelCall.objects.count() == 1


if connection.vendor == "postgresql":  # SQLite locks the whole file, for a transaction

    def test_the_lock_of_a_limit_ends_with_its_transaction() -> None:
        """Else the connection, which a worker keeps for many tasks, would hold up all others."""
        with exclusive("test"):
            assert advisory_locks() == 1
        assert advisory_locks() == 0

    def advisory_locks() -> int:
        held = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        )
        with connection.cursor() as cursor:
            cursor.execute(held)
            return int(cursor.fetchone()[0])

"""A lease goes on being renewed after the database was busy for a moment."""

from __future__ import annotations

from django.db import DatabaseError

from tests.processes import wait_for
from webapp.leases import renewed


def test_an_error_of_the_database_does_not_end_the_renewals() -> None:
    calls: list[int] = []

    def renew() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise DatabaseError("database is locked")

    with renewed(renew, 0.3):
        wait_for(lambda: len(calls) >= 3, 10, "further renewals")

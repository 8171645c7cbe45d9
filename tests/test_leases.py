"""A lease goes on being renewed after the database was busy for a moment."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection

from tests.processes import wait_for
from webapp.core.leases import renewed


def test_an_error_of_the_database_does_not_end_the_renewals() -> None:
    calls: list[int] = []

    def renew() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise DatabaseError("database is locked")

    with renewed(renew, 0.3):
        wait_for(lambda: len(calls) >= 3, "further renewals")


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_failed_is_replaced() -> None:
    """As one that was opened while the data directory was closed, and can only read."""
    used: list[object] = []

    def renew() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        used.append(connection.connection)
        if len(used) == 1:
            raise DatabaseError("attempt to write a readonly database")

    with renewed(renew, 0.3):
        wait_for(lambda: len(used) >= 3, "further renewals")
    assert used[0] is not used[1] is used[2]

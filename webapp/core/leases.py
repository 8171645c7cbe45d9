"""Fenced leases: work on a row that one process does at a time, on whatever machine.

Whoever takes a row gets a token that no other has had. It renews the lease while it works, so that
the lease soon expires if the process is killed. A process that was stopped meanwhile, and goes on
when another has the row, finds its token gone: it can neither renew nor end the other's lease, nor
write what is the other's to write. Times are the database's own, so clocks need not agree.

Never take a lease inside a transaction: others would not see it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from uuid import uuid4

from django.db import DatabaseError, connection, models
from django.db.models import Q, QuerySet
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

log = logging.getLogger(__name__)


class Leased(models.Model):
    """A row that one process at a time may hold."""

    lease = models.CharField(max_length=36, blank=True)  # the token of whoever holds it
    leased_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


def from_now(seconds: float) -> CombinedExpression:
    """The database's time in so many seconds."""
    return Now() + timedelta(seconds=seconds)


def take(rows: QuerySet[Leased], seconds: float, **values: object) -> str:
    """The token that holds the row of `rows` from now on, "" where another holds it.

    `values` are written with it.
    """
    token = uuid4().hex
    free = rows.filter(Q(leased_until=None) | Q(leased_until__lte=Now()))
    taken = free.update(lease=token, leased_until=from_now(seconds), **values)
    return token if taken else ""


def renew(held: QuerySet[Leased], seconds: float) -> bool:
    """Hold rows, filtered by their token, for another `seconds`; False if they were lost."""
    return held.update(leased_until=from_now(seconds)) > 0


def release(held: QuerySet[Leased], **values: object) -> bool:
    """End the lease of rows, filtered by their token.

    False if it was lost; then `values` are not written either.
    """
    return held.update(lease="", leased_until=None, **values) > 0


@contextmanager
def renewed(renew: Callable[[], object], seconds: float) -> Iterator[None]:
    """Call `renew` three times in each lease of `seconds`, in a thread with its own connection."""
    over = Event()

    def keep() -> None:
        try:
            while not over.wait(seconds / 3):
                try:
                    renew()
                except DatabaseError as error:
                    log.warning("a lease was not renewed: %s", error)
                    connection.close()  # it may only read, or its server may be gone: open another
        finally:
            connection.close()

    Thread(target=keep, daemon=True).start()
    try:
        yield
    finally:
        over.set()

"""One slot for requests to arXiv, for every process and machine on one database.

arXiv asks for one connection and three seconds between requests over all of an owner's machines
(https://info.arxiv.org/help/api/tou.html). The slot is one row, taken by compare-and-set; all times
are the database's own, so machines whose clocks differ agree. A holder renews its lease for as long
as the request takes, and loses the slot soon after it is killed. Never call this inside a
transaction: others would not see it.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from django.conf import settings
from django.db.models import F
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Greatest, Now

from webapp.leases import renewed
from webapp.papers.models import ArxivSlot

# Seconds. The site's worker, with its whole queue, waits this long if the holder was killed.
LEASE = 9.0
_SLOT = 1
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class BusyError(Exception):
    """The slot was not free in time; `seconds` is how long it is still taken, as far as known."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"requests to arXiv have to wait another {seconds:.0f} s")
        self.seconds = seconds


@contextmanager
def slot(patience: float) -> Iterator[None]:
    """Hold the slot during a request.

    Waits at most `patience` seconds, then raises BusyError; at once if it is known to take longer.
    """
    holder = uuid4().hex
    _take(holder, patience)
    held = ArxivSlot.objects.filter(pk=_SLOT, holder=holder)
    try:
        with renewed(lambda: held.update(held_until=_from_now(LEASE)), LEASE):
            yield
    finally:
        held.update(holder="", held_until=Now(), free_at=_later(settings.ARXIV_SECONDS))


def pause(seconds: float) -> None:
    """Block all requests to arXiv for `seconds` from now."""
    _make_row()
    ArxivSlot.objects.filter(pk=_SLOT).update(free_at=_later(seconds))


def _take(holder: str, patience: float) -> None:
    _make_row()
    give_up = time.monotonic() + patience
    row = ArxivSlot.objects.filter(pk=_SLOT)
    free = row.filter(held_until__lte=Now(), free_at__lte=Now())
    times = {"held_until": _from_now(LEASE), "free_at": _from_now(settings.ARXIV_SECONDS)}
    while not free.update(holder=holder, **times):
        slot = row.annotate(now=Now()).get()
        paused = (slot.free_at - slot.now).total_seconds()
        held = (slot.held_until - slot.now).total_seconds()
        remaining = give_up - time.monotonic()
        if paused > remaining or remaining <= 0:
            raise BusyError(max(paused, held, 0.0))
        # The end of a pause is known; a holder may finish at any moment.
        nap = paused if paused > 0 else 0.1
        time.sleep(min(remaining, nap + random.uniform(0.0, 0.05)))


def _from_now(seconds: float) -> CombinedExpression:
    return Now() + timedelta(seconds=seconds)


def _later(seconds: float) -> Greatest:
    """`free_at`, moved to `seconds` from now if it is earlier."""
    return Greatest(F("free_at"), _from_now(seconds))


def _make_row() -> None:
    ArxivSlot.objects.get_or_create(pk=_SLOT, defaults={"held_until": _EPOCH, "free_at": _EPOCH})

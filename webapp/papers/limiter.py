"""One slot for requests to arXiv, for every process and machine on one database.

arXiv asks for one connection and three seconds between requests over all of an owner's machines
(https://info.arxiv.org/help/api/tou.html). The slot is one row under a lease
(`webapp.core.leases`): a holder renews it for as long as the request takes, and loses it soon after
it is killed.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Greatest, Now

from webapp.core import leases
from webapp.core.leases import from_now, renewed
from webapp.papers.models import ArxivSlot

# Seconds. The site's worker, with its whole queue, waits this long if the holder was killed.
LEASE = 9.0
_SLOT = 1
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class SlotTakenError(Exception):
    """The slot was not free in time; `seconds` is how long it is still taken, as far as known."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"requests to arXiv have to wait another {seconds:.0f} s")
        self.seconds = seconds


@contextmanager
def slot(timeout: float) -> Iterator[None]:
    """Hold the slot during a request.

    Waits at most `timeout` seconds, then raises BusyError; at once if it is known to take longer.
    """
    held = ArxivSlot.objects.filter(pk=_SLOT, lease=_take(timeout))
    try:
        with renewed(lambda: leases.renew(held, LEASE), LEASE):
            yield
    finally:
        leases.release(held, free_at=_later(settings.ARXIV_SECONDS))


def pause(seconds: float) -> None:
    """Block all requests to arXiv for `seconds` from now."""
    _make_row()
    ArxivSlot.objects.filter(pk=_SLOT).update(free_at=_later(seconds))


def _take(timeout: float) -> str:
    """The token of the lease. Raises BusyError."""
    _make_row()
    give_up = time.monotonic() + timeout
    row = ArxivSlot.objects.filter(pk=_SLOT)
    free, soonest = row.filter(free_at__lte=Now()), from_now(settings.ARXIV_SECONDS)
    while not (token := leases.take(free, LEASE, free_at=soonest)):
        slot = row.annotate(now=Now()).get()
        paused = (slot.free_at - slot.now).total_seconds()
        held = (slot.leased_until - slot.now).total_seconds() if slot.leased_until else 0.0
        remaining = give_up - time.monotonic()
        if paused > remaining or remaining <= 0:
            raise SlotTakenError(max(paused, held, 0.0))
        # The end of a pause is known; a holder may finish at any moment.
        nap = paused if paused > 0 else 0.1
        time.sleep(min(remaining, nap + random.uniform(0.0, 0.05)))
    return token


def _later(seconds: float) -> Greatest:
    """`free_at`, moved to `seconds` from now if it is earlier."""
    return Greatest(F("free_at"), from_now(seconds))


def _make_row() -> None:
    ArxivSlot.objects.get_or_create(pk=_SLOT, defaults={"free_at": _EPOCH})

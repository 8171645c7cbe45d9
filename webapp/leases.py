"""Keep a lease for as long as the work takes, so that it can be short: who is killed loses it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from django.db import DatabaseError, connection

log = logging.getLogger(__name__)


@contextmanager
def renewed(renew: Callable[[], object], seconds: float) -> Iterator[None]:
    """Call `renew` three times in each `seconds` of the lease, in a thread with its connection."""
    over = Event()

    def keep() -> None:
        try:
            while not over.wait(seconds / 3):
                try:
                    renew()
                except DatabaseError as error:
                    log.warning("a lease was not renewed: %s", error)
        finally:
            connection.close()

    Thread(target=keep, daemon=True).start()
    try:
        yield
    finally:
        over.set()

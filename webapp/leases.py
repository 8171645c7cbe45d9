"""Renews a short lease while work goes on, so that it soon expires if the process is killed."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from django.db import DatabaseError, connection

log = logging.getLogger(__name__)


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

"""A worker that is told to stop does so at once: Celery's loop would sleep on for up to a second.

Both applications import this module.
"""

import gc
from threading import Thread

from celery import signals
from kombu.asynchronous import get_event_loop


@signals.worker_shutting_down.connect
def _wake(**_: object) -> None:
    if loop := get_event_loop():
        # It wakes for another thread's calls alone.
        Thread(target=loop.call_soon, args=(lambda: None,)).start()


@signals.worker_shutdown.connect
def _leave_memory(**_: object) -> None:
    """The interpreter's last collection finds nothing to look at."""
    gc.freeze()

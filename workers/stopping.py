"""How a worker ends: at once where it is told to, and with all its pool where it is killed.

Both applications import this module.
"""

import gc
import os
from threading import Thread

from celery import signals
from kombu.asynchronous import get_event_loop

from workers.parent_death import die_with_parent

_main = 0  # the pid of the process that forks the pool


@signals.worker_before_create_process.connect
def _remember_main(**_: object) -> None:
    global _main  # noqa: PLW0603 (the fork that follows reads it)
    _main = os.getpid()


@signals.worker_process_init.connect
def _die_with_main(**_: object) -> None:
    """A pool's process dies with its worker, even one that was killed while it forked."""
    die_with_parent(_main)


@signals.worker_shutting_down.connect
def _wake(**_: object) -> None:
    """Celery's loop would sleep on for up to a second."""
    if loop := get_event_loop():
        # It wakes for another thread's calls alone.
        Thread(target=loop.call_soon, args=(lambda: None,)).start()


@signals.worker_shutdown.connect
def _leave_memory(**_: object) -> None:
    """The interpreter's last collection finds nothing to look at."""
    gc.freeze()

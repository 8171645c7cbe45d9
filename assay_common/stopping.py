"""Ends a worker without delay when it is stopped, and its whole pool when it is killed.

Both applications import this module, which also keeps the pool's processes from copying the memory
that they share.
"""

import gc
import os
from threading import Thread

from celery import signals
from kombu.asynchronous import get_event_loop

from assay_common.parent_death import die_with_parent

_main = 0  # the pid of the process that forks the pool


@signals.worker_before_create_process.connect
def _remember_main(**_: object) -> None:
    global _main  # noqa: PLW0603 (the fork that follows reads it)
    _main = os.getpid()


@signals.worker_before_create_process.connect
def _share_memory(**_: object) -> None:
    """Keep the garbage collector off what was loaded before the fork."""
    gc.collect()
    gc.freeze()


@signals.worker_process_init.connect
def _die_with_main(**_: object) -> None:
    """Make a pool process die with its worker, even if that is killed during the fork."""
    die_with_parent(_main)


@signals.worker_shutting_down.connect
def _wake(**_: object) -> None:
    """Wake Celery's loop, which would go on sleeping for up to a second."""
    if loop := get_event_loop():
        # Only calls of another thread wake it.
        Thread(target=loop.call_soon, args=(lambda: None,)).start()


@signals.worker_shutdown.connect
def _leave_memory(**_: object) -> None:
    """Spare the interpreter its last garbage collection."""
    gc.freeze()

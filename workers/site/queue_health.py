"""Shows `/readyz` that each queue is worked on, and what fails.

A token goes through each queue and is stored. While a long task keeps tokens waiting, its worker
stores heartbeats for the queue instead. A task that raises is kept until it succeeds.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from celery.signals import task_failure, task_postrun, task_prerun, task_success
from django.db import DatabaseError

from webapp.core.leases import renewed
from webapp.operate import failures
from webapp.operate.heartbeats import QUEUE_SILENCE, store
from webapp.operate.models import Heartbeat
from workers.site.app import BRIEF, app


@app.task(bind=True, name="health.token", time_limit=BRIEF)
def store_token(task: Any) -> None:
    """Record that a worker took a message from its queue and ran a task."""
    store(Heartbeat.Kind.QUEUE, _queue(task))


def _queue(task: Any) -> str:
    """The queue that a running task came from, as our transport says."""
    return str(task.request.delivery_info["routing_key"])


log = logging.getLogger(__name__)


class _Task(threading.local):
    """The task that runs in this thread."""

    def __init__(self) -> None:
        self.heartbeats = ExitStack()


_task = _Task()


@task_prerun.connect
def _begin(task: Any, **_: object) -> None:
    # Messages of bench workers are many and short; any other task may wait for a server.
    if not task.name.startswith(("runs.", "health.")):
        busy = partial(store, Heartbeat.Kind.QUEUE, _queue(task))
        busy()
        _task.heartbeats.callback(busy)
        _task.heartbeats.enter_context(renewed(busy, QUEUE_SILENCE.total_seconds()))


@task_postrun.connect
def _end(**_: object) -> None:
    _task.heartbeats.close()


@task_failure.connect
def _failed(sender: Any, exception: BaseException, **_: object) -> None:
    periodic = {entry["task"] for entry in app.conf.beat_schedule.values()}
    with _log_database_errors():
        failures.record(sender.name, exception, sender.name in periodic)


@task_success.connect
def _succeeded(sender: Any, **_: object) -> None:
    with _log_database_errors():
        failures.forget(sender.name)


@contextmanager
def _log_database_errors() -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:  # `/readyz` says so itself
        log.warning("What became of a task is not stored: %s", error)

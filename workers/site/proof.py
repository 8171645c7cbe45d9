"""Shows `/readyz` that each queue is worked on: a token goes through it and is stored.

While a long task keeps tokens waiting, its worker stores heartbeats for the queue instead.
"""

from contextlib import ExitStack
from functools import partial
from typing import Any

from celery.signals import task_postrun, task_prerun

from webapp.health.heartbeats import SILENCE, store
from webapp.health.models import Heartbeat
from webapp.leases import renewed
from workers.site.app import BRIEF, app


@app.task(name="health.token", time_limit=BRIEF)
def store_token(queue: str) -> None:
    """Record that a worker of `queue` took a message and ran a task."""
    store(Heartbeat.Kind.QUEUE, queue)


_long = ExitStack()  # the heartbeats of the long task that runs; a worker runs one at a time


@task_prerun.connect
def _begin(task: Any, **_: object) -> None:
    limit = float(task.time_limit or app.conf.task_time_limit)
    if limit > BRIEF:
        busy = partial(store, Heartbeat.Kind.QUEUE, task.request.delivery_info["routing_key"])
        busy()
        _long.callback(busy)
        _long.enter_context(renewed(busy, SILENCE.total_seconds()))


@task_postrun.connect
def _end(**_: object) -> None:
    _long.close()

"""Proof that each queue is worked on, for `/readyz`: a token goes through it and is stored.

A task that may take minutes says so when it begins: its queue answers no token meanwhile.
"""

from typing import Any

from celery.signals import task_postrun, task_prerun

from webapp.health import heartbeats
from webapp.health.models import Heartbeat
from workers.site.app import BRIEF, app


@app.task(name="health.token", time_limit=BRIEF)
def store_token(queue: str) -> None:
    """Store that the worker of `queue` took a message and finished a task."""
    heartbeats.store(Heartbeat.Kind.QUEUE, queue)


@task_prerun.connect
@task_postrun.connect
def _store_long(signal: object, task: Any, **_: object) -> None:
    """Where a long task begins its queue is busy for as long as it may take; then no more."""
    limit = float(task.time_limit or app.conf.task_time_limit)
    if limit > BRIEF:
        queue = task.request.delivery_info["routing_key"]
        heartbeats.store(Heartbeat.Kind.QUEUE, queue, limit if signal is task_prerun else 0.0)

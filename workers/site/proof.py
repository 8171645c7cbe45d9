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
def _store_busy(task: Any, **_: object) -> None:
    if (limit := _limit(task)) > BRIEF:
        queue = task.request.delivery_info["routing_key"]
        heartbeats.store(Heartbeat.Kind.QUEUE, queue, busy_for=limit)


@task_postrun.connect
def _store_idle(task: Any, **_: object) -> None:
    if _limit(task) > BRIEF:
        heartbeats.store(Heartbeat.Kind.QUEUE, task.request.delivery_info["routing_key"])


def _limit(task: Any) -> float:
    return float(task.time_limit or app.conf.task_time_limit)

"""The scheduler of the periodic tasks, and the heartbeats of beat and workers in the database.

Celery imports this module with the tasks: after Django is set up.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from celery.beat import PersistentScheduler
from django.conf import settings
from django.db import DatabaseError, connection

from webapp.health.heartbeats import SECONDS, sign
from webapp.health.models import Heartbeat
from workers import liveness
from workers.site.app import app

log = logging.getLogger(__name__)


def _store_heartbeat(kind: Heartbeat.Kind, name: str) -> None:
    """Store one, on a connection that is not kept: a worker forks its children between two."""
    try:
        sign(kind, name)
        liveness.touch(settings.DATA_DIR, name)
    except DatabaseError as error:
        log.warning("Heartbeat of %s not stored: %s", name, error)
    finally:
        connection.close()


class Scheduler(PersistentScheduler):
    """Celery's own scheduler, with a heartbeat."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._last_heartbeat = float("-inf")
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; seconds until the next tick."""
        if time.monotonic() - self._last_heartbeat >= SECONDS:
            _store_heartbeat(Heartbeat.Kind.BEAT, "beat")
            self._last_heartbeat = time.monotonic()
        wait: float = super().tick(*args, **kwargs)
        return min(wait, SECONDS)


class WorkerHeartbeat(liveness.LivenessStep):
    """A worker's heartbeat, in the database, where every process of the site looks."""

    def report(self, name: str) -> None:
        """Store it."""
        _store_heartbeat(Heartbeat.Kind.WORKER, name)


app.steps["consumer"].add(WorkerHeartbeat)

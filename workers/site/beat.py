"""The scheduler of the periodic tasks, with a heartbeat in the database.

Celery imports this module with the tasks: after Django is set up.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from celery.beat import PersistentScheduler
from django.db import DatabaseError, connection

from webapp.health import heartbeats
from webapp.health.heartbeats import SECONDS
from webapp.health.models import Heartbeat
from workers import liveness

log = logging.getLogger(__name__)


def _store_heartbeat() -> None:
    try:
        heartbeats.store(Heartbeat.Kind.BEAT, "beat")
        liveness.touch("beat")
    except DatabaseError as error:
        log.warning("Heartbeat of the beat not stored: %s", error)
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
            _store_heartbeat()
            self._last_heartbeat = time.monotonic()
        wait: float = super().tick(*args, **kwargs)
        return min(wait, SECONDS)

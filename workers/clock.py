"""The beat's scheduler, and the signs of life of beat and workers.

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
from workers import pulse
from workers.site import app

logger = logging.getLogger(__name__)


def _sign(kind: Heartbeat.Kind, name: str) -> None:
    """Sign, on a connection that is not kept: a worker forks its children between two signs."""
    try:
        sign(kind, name)
        pulse.touch(settings.DATA_DIR, name)
    except DatabaseError as error:
        logger.warning("No sign of life could be written: %s", error)
    finally:
        connection.close()


class Clock(PersistentScheduler):
    """Celery's own scheduler, which also says that it is alive."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._signed = float("-inf")
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; seconds until the next tick."""
        if time.monotonic() - self._signed >= SECONDS:
            _sign(Heartbeat.Kind.BEAT, "beat")
            self._signed = time.monotonic()
        wait: float = super().tick(*args, **kwargs)
        return min(wait, SECONDS)


class SignOfLife(pulse.Step):
    """A worker's sign of life."""

    def sign(self, name: str) -> None:
        """Sign in the database, where every process of the site looks."""
        _sign(Heartbeat.Kind.WORKER, name)


app.steps["consumer"].add(SignOfLife)

"""Readiness checks: database, broker, beat, and a working worker on each queue.

The results are public and so contain no addresses; the log has the full errors.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone
from kombu import Connection
from kombu.exceptions import KombuError
from redis.exceptions import RedisError, ResponseError

from webapp.catalog.linking import relinking
from webapp.core import connections
from webapp.operate.failures import failing
from webapp.operate.heartbeats import QUEUE_SILENCE, SILENCE, ages
from webapp.operate.models import Heartbeat
from webapp.runs.models import Device, Run, State
from webapp.runs.queries import live_workers

BROKER_SECONDS = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadinessCheck:
    """The result of a check: whether it passed, and what was found."""

    name: str
    ok: bool
    detail: str


def readiness() -> list[ReadinessCheck]:
    """All checks. Each takes a few seconds at most, whatever is down."""
    return [
        _check("database", _database),
        _check("broker", _broker),
        _check("beat", _last_answer, Heartbeat.Kind.BEAT, "beat", SILENCE),
        *(
            _check(f"queue {name}", _last_answer, Heartbeat.Kind.QUEUE, name, QUEUE_SILENCE)
            for name in settings.QUEUES
            if name != "summaries" or connections.current().summary_model
        ),
        *(_check(f"queue bench-{device}", _bench, device) for device in Device),
        _check("tasks", _tasks),
        _check("links", _links),
    ]


def _check(name: str, look: Callable[..., tuple[bool, str]], *given: object) -> ReadinessCheck:
    try:
        return ReadinessCheck(name, *look(*given))
    except DatabaseError as error:
        log.warning("Check of %s: the database does not answer: %s", name, error)
        return ReadinessCheck(name, False, "the database does not answer")


def _database() -> tuple[bool, str]:
    executor = MigrationExecutor(connection)
    if plan := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return False, f"{len(plan)} migrations are missing"
    return True, connection.vendor


def _broker() -> tuple[bool, str]:
    within = {"socket_timeout": BROKER_SECONDS, "socket_connect_timeout": BROKER_SECONDS}
    try:
        with Connection(settings.CELERY_BROKER_URL, transport_options=within) as broker:
            broker.ensure_connection(max_retries=1, timeout=BROKER_SECONDS, interval_start=0)
            # Redis answers reads, and a ping, while it refuses what every task needs.
            channel: Any = broker.default_channel
            channel.client.set("assay-readyz", "1", ex=60)
    except (OSError, KombuError, RedisError) as error:
        log.warning("Check of the broker: %s", error)
        if "MISCONF" in str(error):  # its error for every command while it cannot write
            return False, "Redis cannot write: is its disk full or read-only?"
        if isinstance(error, ResponseError):
            return False, "Redis refuses writes"
        return False, "Redis does not answer"
    return True, "Redis"


def _last_answer(kind: Heartbeat.Kind, name: str, silence: timedelta) -> tuple[bool, str]:
    """The beat's last heartbeat, or the last token that went through a queue."""
    age = ages(kind).get(name)
    if age is None:
        return False, "it has never answered"
    if age > silence.total_seconds():
        return False, f"it last answered {age:.0f} s ago"
    return True, f"it answered {age:.0f} s ago"


def _tasks() -> tuple[bool, str]:
    """Tasks that raised when they last ran. What one reader asked for makes nothing unready."""
    failures = list(failing())
    periodic = [failure for failure in failures if failure.periodic]
    return not periodic, "; ".join(map(str, periodic or failures)) or "none fails"


def _links() -> tuple[bool, str]:
    """Progress of linking papers to methods that have changed; they are shown meanwhile."""
    if progress := relinking():
        done, total = progress
        return True, f"{done:,} of {total:,} papers are linked to methods that have changed"
    return True, "all papers are linked"


def _bench(device: Device) -> tuple[bool, str]:
    """Bench workers by their heartbeats, and their queue by the jobs that wait in it."""
    waiting = Run.objects.filter(device=device, state=State.DISPATCHED)
    if old := waiting.filter(dispatched_at__lt=timezone.now() - SILENCE).count():
        return False, f"{old} jobs wait that no worker starts"
    return True, f"{live_workers().filter(device=device).count()} workers alive"

"""What must hold for the site to be ready: database, broker, beat and worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from kombu import Connection
from kombu.exceptions import KombuError

from webapp.health.heartbeats import SILENCE, ages, alive
from webapp.health.models import Heartbeat

BROKER_SECONDS = 2


@dataclass(frozen=True)
class Check:
    """One condition: whether it holds, and in words what was found."""

    name: str
    ok: bool
    detail: str


def readiness() -> list[Check]:
    """All checks, each of which ends within a few seconds whatever is down."""
    return [
        _check("database", _database),
        _check("broker", _broker),
        _check("beat", _beat),
        _check("workers", _workers),
    ]


class _NotReadyError(Exception):
    pass


def _check(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except _NotReadyError as error:
        return Check(name, False, str(error))
    except DatabaseError as error:
        return Check(name, False, f"the database does not answer: {error}")


def _database() -> str:
    executor = MigrationExecutor(connection)
    if plan := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise _NotReadyError(f"{len(plan)} migrations are missing")
    return connection.vendor


def _broker() -> str:
    transport = settings.CELERY_BROKER_URL.partition(":")[0]
    try:
        with Connection(
            settings.CELERY_BROKER_URL,
            transport_options=settings.CELERY_BROKER_TRANSPORT_OPTIONS,
            connect_timeout=BROKER_SECONDS,
        ) as broker:
            broker.ensure_connection(max_retries=1, timeout=BROKER_SECONDS, interval_start=0)
    except (OSError, KombuError) as error:
        raise _NotReadyError(f"{transport} does not answer: {error}") from error
    return transport


def _beat() -> str:
    age = min(ages(Heartbeat.Kind.BEAT).values(), default=None)
    if age is None:
        raise _NotReadyError("the beat has not been seen")
    if age > SILENCE.total_seconds():
        raise _NotReadyError(f"the beat was last seen {age:.0f} s ago")
    return f"seen {age:.0f} s ago"


def _workers() -> str:
    names = alive(Heartbeat.Kind.WORKER)
    if not names:
        raise _NotReadyError("no site worker has been seen lately")
    return ", ".join(names)

"""What the site puts on the broker. It only carries: whatever is lost here, a sweep repeats.

Tasks go by name, so the site imports no worker. Bench workers listen for control commands on an
exchange of their own, so that the site's workers never see a command they do not know.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache

from celery import Celery
from django.utils import timezone
from kombu.exceptions import OperationalError

from webapp.runs.models import Run

EVENTS = "events"  # events of bench workers, and the short tasks that follow from them
CONTROL_EXCHANGE = "bench"

log = logging.getLogger(__name__)


class BrokerDownError(Exception):
    """The broker could not be reached."""


@cache
def _app() -> Celery:
    app = Celery("assay-site", set_as_current=False)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.conf.control_exchange = CONTROL_EXCHANGE
    app.conf.task_ignore_result = True
    # At once, and once more where Redis was started again meanwhile; kombu's own way takes 6 s.
    app.conf.broker_transport_options = {"max_retries": 1, "interval_start": 0, "interval_max": 0}
    return app


def send_job(run: Run, envelope: Mapping[str, object]) -> None:
    """Put a signed job on the queue of the run's device. Raises BrokerDownError."""
    _send("bench.run", f"bench-{run.device}", [envelope])


def kick() -> None:
    """Ask for a look at the queue, now; where the broker is down, the next sweep looks."""
    try:
        _send("runs.dispatch", EVENTS, [])
    except BrokerDownError as error:
        log.warning("Broker unreachable, dispatch waits for the next sweep: %s", error)


def request_lease_check() -> None:
    """Queue a lease check behind every event that has arrived. Raises BrokerDownError.

    The message carries when it was sent: one that waited long means a backlog, and longer leases.
    """
    _send("runs.expire", EVENTS, [timezone.now().timestamp()])


def cancel(run_id: object, token: str, worker: str = "") -> None:
    """Tell every worker, or the one named, to give up the attempt `token` of a run.

    A lost cancel costs device time and nothing else, so a broker that is down is only logged.
    """
    arguments = {"run": str(run_id), "token": token, "worker": worker}
    try:
        _app().control.broadcast("cancel_run", arguments=arguments, reply=False)
    except (OperationalError, OSError) as error:
        log.warning("Broker unreachable, cancel of run %s not sent: %s", run_id, error)


def _send(task: str, queue: str, args: list[object]) -> None:
    try:
        _app().send_task(task, args=args, queue=queue, retry=False)
    except (OperationalError, OSError) as error:
        raise BrokerDownError(str(error)) from error

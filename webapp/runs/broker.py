"""What the site puts on the broker. It only carries: whatever is lost here, a sweep repeats.

Tasks go by name, so the site imports no worker. Bench workers listen for control commands on an
exchange of their own, so that the site's workers never see a command they do not know.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from django.utils import timezone

from webapp.runs.models import Run
from webapp.tasks import BrokerDownError, app, broadcast, send

__all__ = ["BrokerDownError", "app", "cancel", "kick", "request_lease_check", "send", "send_job"]

EVENTS = "events"  # events of bench workers, and the short tasks that follow from them

log = logging.getLogger(__name__)


def send_job(run: Run, envelope: Mapping[str, object]) -> None:
    """Put a signed job on the queue of the run's device. Raises BrokerDownError."""
    send("bench.run", f"bench-{run.device}", [envelope])


def kick() -> None:
    """Ask for a look at the queue, now; where the broker is down, the next sweep looks."""
    try:
        send("runs.dispatch", EVENTS, [])
    except BrokerDownError as error:
        log.warning("Broker unreachable, dispatch waits for the next sweep: %s", error)


def request_lease_check() -> None:
    """Queue a lease check behind every event that has arrived. Raises BrokerDownError.

    The message carries when it was sent: one that waited long means a backlog, and longer leases.
    """
    send("runs.expire", EVENTS, [timezone.now().timestamp()])


def cancel(run_id: object, token: str, worker: str = "") -> None:
    """Tell every worker, or the one named, to give up the attempt `token` of a run.

    A lost cancel costs device time and nothing else, so a broker that is down is only logged.
    """
    arguments: dict[str, object] = {"run": str(run_id), "token": token, "worker": worker}
    try:
        broadcast("cancel_run", arguments)
    except BrokerDownError as error:
        log.warning("Broker unreachable, cancel of run %s not sent: %s", run_id, error)

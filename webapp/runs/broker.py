"""Messages that the site sends about runs. Any that is lost is repeated by a sweep.

Tasks go by name, so the site imports no worker. Bench workers listen for control commands on an
exchange of their own, so that the site's workers never see a command they do not know.
"""

from collections.abc import Mapping

from django.utils import timezone

from assay_common.redis_broker import EVENTS
from webapp.core.tasks import broadcast, send
from webapp.runs.models import Run


def send_job(run: Run, envelope: Mapping[str, object]) -> bool:
    """Put a signed job on the queue of the run's device; False if the broker is down."""
    return send("bench.run", [envelope], f"bench-{run.device}", lost=f"run {run.pk} not sent yet")


def kick() -> None:
    """Have queued runs dispatched now; if the broker is down, the next sweep does it."""
    send("runs.dispatch", [], EVENTS, lost="dispatch waits for the next sweep")


def request_lease_check() -> None:
    """Queue a lease check behind every event that has arrived, where the broker can be reached.

    The message carries when it was sent: one that waited long means a backlog, and longer leases.
    """
    send("runs.expire", [timezone.now().timestamp()], EVENTS, lost="lease check skipped")


def cancel(run_id: object, token: str, worker: str = "") -> None:
    """Tell every worker, or the one named, to end the attempt `token` of a run.

    A lost cancel costs device time and nothing else.
    """
    arguments: dict[str, object] = {"run": str(run_id), "token": token, "worker": worker}
    broadcast("cancel_run", arguments, lost=f"cancel of run {run_id} not sent")

"""From the queue to a worker: at most one run a live worker, and one a reader.

Runs wait in the database, not in the broker: their order, the readers' limits and what a page
says of them stay ours until a worker is free.
"""

from secrets import token_urlsafe

from django.db import transaction
from django.utils import timezone

from methods import protocol
from webapp.runs import broker, states
from webapp.runs.keys import key_of
from webapp.runs.models import MIB, WITH_WORKER, Run, State, Worker
from webapp.runs.queries import live_workers
from webapp.runs.times import START


def dispatch() -> list[Run]:
    """Send as many queued runs as there are idle workers; return them. Safe to call at once."""
    sent = []
    for device in set(Run.objects.filter(state=State.QUEUED).values_list("device", flat=True)):
        while run := _claim(device):
            send(run)
            sent.append(run)
    return sent


def send(run: Run) -> bool:
    """Send (or repeat) the job of a dispatched run; False where the broker could not be reached.

    The worker takes a token once, so a repeated job is never measured twice.
    """
    if not broker.send_job(run, sealed(run)):
        return False
    Run.objects.filter(pk=run.pk, token=run.token).update(sent_at=timezone.now())
    return True


def sealed(run: Run) -> dict[str, dict[str, object]]:
    """The job of a dispatched run, signed for each worker that may take it, by its name.

    One queue serves all workers of a device, and each has a key of its own: whoever takes the
    message finds its copy, and a machine whose key leaked can forge jobs for itself alone.
    """
    of_run = protocol.Job.model_fields.keys() - {"v", "run", "limits"}  # by the same names
    job = protocol.Job(
        run=str(run.pk),
        limits=protocol.Limits(seconds=run.limit_seconds, memory_bytes=run.limit_mib * MIB),
        **{name: getattr(run, name) for name in of_run},
    )
    workers = Worker.objects.filter(device=run.device, enabled=True)
    return {worker.name: protocol.seal(job, key_of(worker)) for worker in workers}


@transaction.atomic
def _claim(device: str) -> Run | None:
    """Move the next run to dispatched if a worker is idle; committed before anything is sent."""
    # The workers' rows are the lock: a second dispatcher counts only after the first committed.
    workers = len(live_workers().filter(device=device).select_for_update())
    busy = Run.objects.filter(device=device, state__in=WITH_WORKER).count()
    run = _next(device) if workers > busy else None
    if run is None:
        return None
    now = timezone.now()
    moved = states.move(
        run,
        State.DISPATCHED,
        states.Writer.DISPATCHER,
        attempt=run.attempt + 1,
        token=token_urlsafe(24),
        dispatched_at=now,
        start_by=now + START,
    )
    return run if moved else None


def _next(device: str) -> Run | None:
    """The oldest queued run whose reader has none with a worker already."""
    occupied = Run.objects.filter(state__in=WITH_WORKER, reader__isnull=False).values("reader")
    queue = Run.objects.filter(state=State.QUEUED, device=device).exclude(reader__in=occupied)
    return queue.order_by("queued_at", "id").first()

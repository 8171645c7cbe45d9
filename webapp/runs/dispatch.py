"""Dispatches queued runs: at most one run to each live worker, and one for each reader in turn.

Runs wait in the database rather than in the broker, so the site controls their order and the
readers' limits until a worker is free.
"""

from secrets import token_urlsafe

from django.db import transaction
from django.utils import timezone

from methods import protocol
from webapp.runs import broker, states
from webapp.runs.keys import key_of
from webapp.runs.models import WITH_WORKER, Run, State, Worker
from webapp.runs.queries import live_workers, waiting
from webapp.runs.times import START


def dispatch() -> list[Run]:
    """Send as many queued runs as workers are idle; return them. Concurrent calls are safe."""
    sent = []
    for device in set(Run.objects.filter(state=State.QUEUED).values_list("device", flat=True)):
        while run := _claim(device):
            send(run)
            sent.append(run)
    return sent


def send(run: Run) -> None:
    """Send the job of a dispatched run, perhaps again; if that fails, the sweep tries later.

    A worker accepts a token only once, so a job sent twice is not measured twice.
    """
    if broker.send_job(run, sealed(run)):
        Run.objects.filter(pk=run.pk, token=run.token).update(sent_at=timezone.now())


def sealed(run: Run) -> dict[str, dict[str, object]]:
    """The job of a dispatched run, signed once for each worker that may take it, by worker name.

    All workers of a device share a queue, and each has its own key: whichever takes the message
    finds its copy, and a leaked key can forge jobs for its own machine only.
    """
    of_run = protocol.Job.model_fields.keys() - {"v", "run", "limits"}  # named alike in Run
    job = protocol.Job(
        run=str(run.pk),
        limits=protocol.Limits(seconds=run.limit_seconds),
        **{name: getattr(run, name) for name in of_run},
    )
    workers = Worker.objects.filter(device=run.device)
    return {worker.name: protocol.seal(job, key_of(worker)) for worker in workers}


@transaction.atomic
def _claim(device: str) -> Run | None:
    """Move the next run to dispatched if a worker is idle; committed before anything is sent."""
    # The workers' rows are the lock: a second dispatcher counts only after the first has committed.
    workers = len(live_workers().filter(device=device).select_for_update())
    busy = Run.objects.filter(device=device, state__in=WITH_WORKER).count()
    # The first waiting run whose reader has no other with a worker.
    occupied = Run.objects.filter(state__in=WITH_WORKER, reader__isnull=False).values("reader")
    run = waiting(device).exclude(reader__in=occupied).first() if workers > busy else None
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

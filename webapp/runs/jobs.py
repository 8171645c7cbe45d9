"""The job a worker receives."""

from __future__ import annotations

from methods import protocol
from webapp.runs.keys import key_of
from webapp.runs.models import MIB, Run, Worker

Sealed = dict[str, dict[str, object]]


def sealed(run: Run) -> Sealed:
    """The job of a dispatched run, signed for each worker that may take it, by its name.

    One queue serves all workers of a device, and each has a key of its own: whoever takes the
    message finds its copy, and a machine whose key leaked can forge jobs for itself alone.
    """
    job = protocol.Job(
        run=str(run.pk),
        attempt=run.attempt,
        token=run.token,
        method=run.method,
        benchmark=run.benchmark,
        version=run.version,
        params=run.params,
        seed=run.seed,
        limits=protocol.Limits(seconds=run.limit_seconds, memory_bytes=run.limit_mib * MIB),
    )
    workers = Worker.objects.filter(device=run.device, enabled=True)
    return {worker.name: protocol.seal(job, key_of(worker)) for worker in workers}

"""A worker's words, made by hand: signed events in any order."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from methods import protocol
from webapp.runs import keys, states
from webapp.runs.models import Run, State, Worker
from webapp.runs.states import Writer

ENVIRONMENT = protocol.Environment(
    hardware="a processor, 2 cores",
    processor="a processor",
    cores=2,
    threads=2,
    memory_bytes=2**34,
    platform="Linux",
    versions={"torch": "2.13.0"},
)


def live_worker(name: str = "one", **fields: object) -> Worker:
    """A worker that was heard of just now."""
    keys.issue(name)
    values = {"device": "cpu", "last_seen": timezone.now(), "memory_mib": 4096, **fields}
    Worker.objects.filter(name=name).update(**values)
    return Worker.objects.get(name=name)


def queued(reader: User | None = None, **fields: object) -> Run:
    """A run that waits."""
    values = {
        "reader": reader,
        "method": "trial",
        "benchmark": "sleep",
        "device": "cpu",
        "limit_seconds": 300,
        "queued_at": timezone.now(),
        "charged_on": timezone.now().date(),
        "charged_seconds": 300,
    }
    return Run.objects.create(**{**values, **fields})


def dispatched(**fields: object) -> Run:
    """A run that was sent."""
    return send(queued(**fields))


def send(run: Run) -> Run:
    """A run that waited, sent."""
    now = timezone.now()
    states.move(
        run,
        State.DISPATCHED,
        Writer.DISPATCHER,
        attempt=run.attempt + 1,
        token=f"token-{run.pk}-{run.attempt + 1}",
        dispatched_at=now,
        sent_at=now,
        start_by=now + timedelta(seconds=60),
    )
    return run


def running(worker: Worker, **fields: object) -> Run:
    """A run that `worker` has begun."""
    return begin(dispatched(**fields), worker)


def begin(run: Run, worker: Worker) -> Run:
    """A run that was sent, begun by `worker`."""
    now = timezone.now()
    states.move(
        run,
        State.RUNNING,
        Writer.RECORDER,
        worker=worker,
        started_at=now,
        leased_until=now + timedelta(seconds=30),
        finish_by=now + timedelta(seconds=360),
    )
    return run


def say(
    about: Run, seq: int, body: protocol.Strict, worker: str = "one", **changes: object
) -> dict:
    """A sealed event of the run's attempt."""
    event = protocol.Event(
        seq=seq,
        kind=protocol.KINDS[type(body)],
        body=body,
        worker=worker,
        **{"run": str(about.pk), "token": about.token, **changes},
    )
    return protocol.seal(event, keys.key_of(Worker.objects.get(name=worker)))


def beat(
    worker: str, boot: str, number: int, run: Run | None = None, *, leaving: bool = False
) -> dict:
    """A sealed heartbeat."""
    message = protocol.Heartbeat(
        worker=worker,
        boot=boot,
        beat=number,
        device="cpu",
        device_name="a processor",
        memory_bytes=2**32,
        versions={"python": "3.11"},
        leaving=leaving,
        run=str(run.pk) if run else None,
        token=run.token if run else None,
    )
    return protocol.seal(message, keys.key_of(Worker.objects.get(name=worker)))


def started() -> protocol.Started:
    return protocol.Started(
        method="trial",
        benchmark="sleep",
        version=1,
        params={"seconds": 0.5},
        seed=0,
        device="cpu",
        environment=ENVIRONMENT,
        at=86_400.0,  # a worker's clock proves nothing
    )


def series(name: str = "latency", median: float = 1.0) -> protocol.Series:
    spread = dict.fromkeys(("median", "q1", "q3", "low", "high"), median)
    return protocol.Series(
        name=name,
        title="How long it takes",
        x=protocol.Axis(label="step"),
        y=protocol.Axis(label="time", unit="s"),
        direction="lower",
        variants=(protocol.Variant(name="clock", label="clock"),),
        points=(protocol.Point(variant="clock", x=0.0, samples=(median,), **spread),),
    )


def check(name: str = "clock_runs") -> protocol.CheckResult:
    return protocol.CheckResult(name=name, measured=True, bound=True, relation="==", passed=True)


def artefact() -> protocol.Artefact:
    return protocol.Artefact(name="a.txt", media_type="text/plain", encoding="text", content="a")


MEASURED = {protocol.KINDS[type(body)]: body for body in (started(), check(), series(), artefact())}


def result() -> protocol.Result:
    return protocol.Result(duration=1.0, checks=1, series=("latency",))


def whole_run(run: Run) -> list[dict]:
    """All that a worker says of a good run, in order."""
    return [
        say(run, 0, protocol.Progress(fraction=0.0, elapsed=0.0)),
        say(run, 1, started()),
        say(run, 2, check()),
        say(run, 3, protocol.Log(offset=0, text="hello\n")),
        say(run, 4, protocol.Log(offset=6, text="world\n")),
        say(run, 5, protocol.Progress(fraction=1.0, elapsed=1.0)),
        say(run, 6, series()),
        say(run, 7, result()),
    ]

"""Runs in every state that a page can show, straight into the database."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

from django.contrib.auth.models import User
from django.utils import timezone

from methods import protocol, registry
from methods.protocol import Axis, Limit, Point, Ratio, Variant
from tests.runs.saying import (
    ENVIRONMENT,
    begin,
    dispatched,
    live_worker,
    queued,
    running,
    say,
    send,
)
from webapp.runs import record, states
from webapp.runs.models import Run, RunFailure, State
from webapp.runs.states import Writer

METHOD, BENCHMARK = "sparse_attention", "latency"
VARIANTS = (
    Variant(name="adaptive", label="sparse, skipping tiles", ours=True),
    Variant(name="sdpa", label="dense (SDPA)"),
    Variant(name="masked", label="dense with a mask"),
)


def fields(reader: User | None = None, **more: object) -> dict[str, object]:
    """Fields of a request for the real benchmark."""
    _, benchmark = registry.find(f"{METHOD}.{BENCHMARK}")
    return {
        "reader": reader,
        "method": METHOD,
        "benchmark": BENCHMARK,
        "preset": "quick",
        "params": benchmark.resolve("quick", {"batch": 2}).model_dump(mode="json"),
        **more,
    }


def latency(factor: float = 1.0) -> protocol.Series:
    """A series of three variants over four lengths: faster, slower and undecided ones."""
    points = []
    for x in (1024.0, 2048.0, 4096.0, 8192.0):
        base = (x / 1024) ** 2 * 4 * factor
        for variant, times in (
            ("sdpa", 1.0),
            ("adaptive", 0.95 * (x / 1024) ** 0.8),
            ("masked", 0.5),
        ):
            median = base / times
            ratio = None
            if variant != "sdpa":
                low, high = times * 0.93, times * 1.06
                word = "faster" if low > 1 else "slower" if high < 1 else "no difference shown"
                ratio = Ratio(value=times, low=low, high=high, verdict=word)
            points.append(
                Point(
                    variant=variant,
                    x=x,
                    samples=tuple(median * (0.97 + k / 100) for k in range(7)),
                    median=median,
                    q1=median * 0.985,
                    q3=median * 1.015,
                    low=median * 0.97,
                    high=median * 1.03,
                    ratio=ratio,
                    flags=(protocol.Flag.VARIATION,) if variant == "masked" and x > 4096 else (),
                )
            )
    return protocol.Series(
        name="forward",
        title="Forward pass over length",
        x=Axis(label="length", unit="tokens", scale="log"),
        y=Axis(label="time", unit="ms", scale="log"),
        direction="lower",
        variants=VARIANTS,
        points=tuple(points),
        baseline="sdpa",
        limits=(
            Limit(label="all pairs skipped", points=((1024.0, 2.4), (8192.0, 12.0)), of="ratio"),
        ),
        caption="Interleaved blocks; the baseline is measured in the same run.",
    )


def environment(hardware: str = ENVIRONMENT.hardware) -> protocol.Environment:
    """A machine of that class."""
    return ENVIRONMENT.model_copy(update={"hardware": hardware})


def begun(run: Run, hardware: str = ENVIRONMENT.hardware, worker: str = "one") -> None:
    """The events of a worker that begins a run."""
    body = protocol.Started(
        method=run.method,
        benchmark=run.benchmark,
        version=run.version,
        preset=run.preset or None,
        params=run.params,
        seed=run.seed,
        device="cpu",
        environment=environment(hardware),
        at=0.0,
    )
    assert record.store_event(say(run, 0, body, worker))


def measured(
    reader: User | None = None,
    factor: float = 1.0,
    hardware: str = ENVIRONMENT.hardware,
    **more: object,
) -> Run:
    """A run that succeeded with checks, a log, a series and a file, as recorded."""
    return told(running(live_worker("one"), **fields(reader, **more)), factor, hardware)


def finish(key: str) -> Run:
    """Record all events of a worker that finishes the queued run of that key."""
    return told(begin(send(Run.objects.get(pk=key)), live_worker("one")))


def told(run: Run, factor: float = 1.0, hardware: str = ENVIRONMENT.hardware) -> Run:
    """A run that was begun, with all that its worker says up to its end."""
    begun(run, hardware)
    seq = count(1)
    oracle = protocol.CheckResult(
        name="oracle", label="fp32", measured=3.1e-7, bound=1e-5, relation="<=", passed=True
    )
    record.store_event(say(run, next(seq), oracle))
    finite = protocol.CheckResult(
        name="finite", label="scale 1e4", measured=True, bound=True, relation="==", passed=True
    )
    record.store_event(say(run, next(seq), finite))
    record.store_event(
        say(run, next(seq), protocol.Log(offset=0, text="warming up\nblock 1 of 5\n"))
    )
    record.store_event(say(run, next(seq), latency(factor)))
    made = protocol.Artefact(
        name="mask.svg", media_type="image/svg+xml", encoding="text", content="<svg><script/></svg>"
    )
    record.store_event(say(run, next(seq), made))
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(seconds=41))
    done = protocol.Result(duration=41.0, checks=2, series=("forward",), artefacts=1)
    record.store_event(say(run, next(seq), done))
    run.refresh_from_db()
    return run


def under_way(reader: User | None = None) -> Run:
    """A run at 42 %, with a log."""
    run = running(live_worker("one"), **fields(reader))
    begun(run)
    text = "checks passed\nwarming up <b>variants</b>\n"
    record.store_event(say(run, 1, protocol.Log(offset=0, text=text)))
    at = protocol.Progress(fraction=0.42, message="block 3 of 7, n = 1024", elapsed=18.2, left=25.0)
    record.store_event(say(run, 2, at))
    run.refresh_from_db()
    return run


def failed(failure: RunFailure, reason: str, reader: User | None = None) -> Run:
    """A run that failed that way for good."""
    run = running(live_worker("one"), **fields(reader))
    run.attempt = 2
    run.save()
    if failure == RunFailure.CHECK:
        begun(run)
        missed = protocol.CheckResult(
            name="oracle", label="bf16", measured=0.31, bound=0.01, relation="<=", passed=False
        )
        record.store_event(say(run, 1, missed))
        run.refresh_from_db()
    assert states.fail(run, failure, reason, Writer.RECORDER)
    return run


REASONS = {
    RunFailure.WORKER_LOST: "Nothing was heard of one for 30 s.",
    RunFailure.KILLED: "the benchmark was ended by signal 9",
    RunFailure.INPUT: "61.0 GiB are needed on cpu, 6.2 GiB are free; choose smaller parameters",
    RunFailure.CHECK: "oracle (bf16): 0.31 <= 0.01",
    RunFailure.MEMORY: "out of memory\nTried to allocate 48.00 GiB",
    RunFailure.ERROR: 'ValueError: heads <script>alert(1)</script>\n  File "bench.py", line 12',
}


def every_state(reader: User | None = None) -> dict[str, Run]:
    """One run in each state and failure, by a name for it."""
    again = queued(**fields(reader))
    again.attempt = 1
    again.save()
    cancelling = running(live_worker("one"), **fields(reader))
    states.move(cancelling, State.CANCELLING, Writer.VIEW, cancelling_at=timezone.now())
    late = running(live_worker("one"), **fields(reader))
    states.move(late, State.TIMED_OUT, Writer.RECORDER, reason="the limit of 300 s was reached")
    early = queued(**fields(reader))
    states.move(early, State.CANCELLED, Writer.VIEW)
    return {
        "succeeded": measured(reader),
        "running": under_way(reader),
        "queued": queued(**fields(reader)),
        "waiting": queued(**fields(reader, device="gpu")),
        "again": again,
        "dispatched": dispatched(**fields(reader)),
        "cancelling": cancelling,
        "timed_out": late,
        "cancelled": early,
        **{
            str(failure.value): failed(failure, reason, reader)
            for failure, reason in REASONS.items()
        },
    }

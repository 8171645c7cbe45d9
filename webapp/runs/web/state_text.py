"""What a run's state means, in words: what is happening, why, and what a reader can do."""

from __future__ import annotations

from dataclasses import dataclass

from methods.charts import duration
from webapp.runs.models import WITH_WORKER, Device, Failure, Run, State
from webapp.runs.queries import Place, place
from webapp.runs.times import ALIVE, CANCEL


@dataclass(frozen=True)
class Telling:
    """A state in words. `tone` names its sign and colour: words never stand on colour alone."""

    title: str
    text: str
    tone: str  # waiting, running, good, fair, bad, none
    advice: str = ""

    @property
    def icon(self) -> str:
        """The sign of the sprite that goes with the tone."""
        return _ICONS[self.tone]


_ICONS = {
    "waiting": "waiting",
    "running": "stale",
    "good": "complete",
    "fair": "stale",
    "bad": "failed",
    "none": "empty",
}


def telling(run: Run) -> Telling:
    """The state of `run` in words; asks the database only for one that waits."""
    return _TELL[State(run.state)](run)


def span(seconds: float) -> str:
    """A round stretch of time: `5 min`, `2 h`."""
    return duration(seconds).removesuffix(" 0 s").removesuffix(" 0 min")


def took(run: Run) -> str:
    """How long it measured: `41 s`; "" if it never began or has not ended."""
    if run.started_at is None or run.finished_at is None:
        return ""
    return duration((run.finished_at - run.started_at).total_seconds())


def _queued(run: Run) -> Telling:
    where = place(run) or Place(0, 0)
    device = Device(run.device).label
    again = (
        "The first worker was lost. That costs you nothing: the run keeps its place and is tried "
        "once more. "
        if run.attempt
        else ""
    )
    title = "Queued again" if run.attempt else "Queued"
    if not where.workers:
        seconds = int(ALIVE.total_seconds())
        return Telling(
            f"{title}: no live worker can serve this",
            f"{again}It needs a {device} worker, and none has sent a heartbeat for {seconds} s. "
            "It starts by itself as soon as one connects.",
            "fair",
            "The workers page shows which workers there are and how to add one.",
        )
    if where.ahead:
        runs = "one run" if where.ahead == 1 else f"{where.ahead} runs"
        return Telling(
            f"{title}, with {runs} before it", f"{again}{_serving(where, device)}", "waiting"
        )
    if run.reader_id and Run.objects.filter(reader=run.reader_id, state__in=WITH_WORKER).exists():
        return Telling(
            f"{title}, behind another run of yours",
            f"{again}One run a reader is measured at a time; this one follows.",
            "waiting",
        )
    return Telling(f"{title}, next in line", f"{again}{_serving(where, device)}", "waiting")


def _serving(where: Place, device: str) -> str:
    if where.workers == 1:
        return f"One {device} worker is live and takes runs in order."
    return f"{where.workers} {device} workers are live and take runs in order."


def _dispatched(_run: Run) -> Telling:
    return Telling(
        "Sent to a worker",
        "The worker has not answered yet; most runs start within a second.",
        "waiting",
    )


def _running(run: Run) -> Telling:
    worker = f" on worker {run.worker}" if run.worker else ""
    second = " This is the second attempt: the first worker was lost." if run.attempt > 1 else ""
    return Telling(
        f"Running{worker}",
        f"Results appear when the run has ended and every check has passed.{second}",
        "running",
    )


def _cancelling(_run: Run) -> Telling:
    seconds = int(CANCEL.total_seconds())
    return Telling(
        "Being cancelled",
        f"The worker was told to stop and usually does within two seconds; after {seconds} s "
        "without an answer the run counts as cancelled.",
        "waiting",
    )


def _succeeded(run: Run) -> Telling:
    checks = run.result.get("checks", 0) if run.result else 0
    passed = f"{checks} correctness check{'s' if checks != 1 else ''} passed"
    if run.imported:
        return Telling(
            "Published result",
            f"{passed}. It was measured elsewhere, in {took(run)}, on the machine described below.",
            "good",
        )
    return Telling(f"Succeeded in {took(run)}", f"{passed}.", "good")


def _failed(run: Run) -> Telling:
    failure = Failure(run.failure) if run.failure else Failure.ERROR
    title, text, advice = _FAILURES[failure]
    return Telling(f"Failed: {title}", text, "bad", advice)


_FAILURES: dict[Failure, tuple[str, str, str]] = {
    Failure.WORKER_LOST: (
        "the worker was lost, twice",
        "Both workers that had it stopped sending heartbeats. No device time was charged.",
        "Run it again; if it is lost again, look at the workers page or tell whoever runs this "
        "site.",
    ),
    Failure.KILLED: (
        "something else ended it",
        "Something on the worker's machine ended the benchmark, twice; often the machine ran out "
        "of memory. No device time was charged.",
        "Run it again, or choose smaller parameters.",
    ),
    Failure.INPUT: (
        "the worker refused the parameters",
        "The worker checked the parameters and cannot measure them on its machine.",
        "Read the reason, change the parameters and run again.",
    ),
    Failure.CHECK: (
        "a correctness check missed its bound",
        "Assay measures only what is correct, so this run shows no results.",
        "The checks below say which bound was missed and by how much. This is a finding about the "
        "method on this machine.",
    ),
    Failure.MEMORY: (
        "it ran out of memory",
        "The parameters need more than this worker has.",
        "Choose a smaller preset, shorter lengths or a smaller batch, or another device.",
    ),
    Failure.ERROR: (
        "the benchmark failed",
        "The method's own code raised an error.",
        "The reason and the log say where. Running it again will most likely fail the same way.",
    ),
}


def _timed_out(run: Run) -> Telling:
    return Telling(
        "Timed out",
        f"It was stopped at its limit of {span(run.limit_seconds)}.",
        "bad",
        "Choose a smaller preset or smaller parameters; each preset has its own limit.",
    )


def _cancelled(run: Run) -> Telling:
    if run.started_at is None:
        return Telling("Cancelled before it started", "Nothing was measured or charged.", "none")
    return Telling(
        f"Cancelled after {took(run)}",
        "Partial measurements are not shown as results.",
        "none",
    )


_TELL = {
    State.QUEUED: _queued,
    State.DISPATCHED: _dispatched,
    State.RUNNING: _running,
    State.CANCELLING: _cancelling,
    State.SUCCEEDED: _succeeded,
    State.FAILED: _failed,
    State.TIMED_OUT: _timed_out,
    State.CANCELLED: _cancelled,
}

# One word and its tone for lists, where there is no room for a sentence.
BRIEF: dict[str, str] = {
    State.QUEUED: "waiting",
    State.DISPATCHED: "waiting",
    State.RUNNING: "running",
    State.CANCELLING: "waiting",
    State.SUCCEEDED: "good",
    State.FAILED: "bad",
    State.TIMED_OUT: "bad",
    State.CANCELLED: "none",
}


def icon_of(state: str) -> str:
    """The sign of a state in a list."""
    return _ICONS[BRIEF[state]]

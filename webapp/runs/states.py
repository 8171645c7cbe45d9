"""The state machine of a run: every transition, who writes it, and the one place that does.

A transition is a compare-and-set on (state, token). Whoever loses a race is told so by `move`
returning False, has changed nothing, and drops what it was about to do. The token names the
attempt: it is new at every dispatch, so what an old attempt still says can change nothing.
"""

import logging
from datetime import timedelta
from enum import StrEnum

from django.db import transaction
from django.utils import timezone

from webapp.runs.models import ENDED, Failure, Run, State

news = logging.getLogger("assay.news")  # shown on the terminal of `up`

ATTEMPTS = 2  # the first, and one more after a failure of ours


class Writer(StrEnum):
    """Who asks for a transition."""

    VIEW = "view"
    DISPATCHER = "dispatcher"
    RECORDER = "recorder"
    SWEEP = "sweep"


_V, _D, _R, _S = Writer.VIEW, Writer.DISPATCHER, Writer.RECORDER, Writer.SWEEP

TRANSITIONS: dict[tuple[State, State], frozenset[Writer]] = {
    (State.QUEUED, State.DISPATCHED): frozenset({_D}),
    (State.QUEUED, State.CANCELLED): frozenset({_V}),
    (State.DISPATCHED, State.RUNNING): frozenset({_R}),
    (State.DISPATCHED, State.CANCELLING): frozenset({_V}),
    (State.DISPATCHED, State.QUEUED): frozenset({_S}),
    (State.DISPATCHED, State.FAILED): frozenset({_S}),
    (State.RUNNING, State.SUCCEEDED): frozenset({_R}),
    (State.RUNNING, State.FAILED): frozenset({_R, _S}),
    (State.RUNNING, State.TIMED_OUT): frozenset({_R, _S}),
    (State.RUNNING, State.CANCELLING): frozenset({_V}),
    (State.RUNNING, State.CANCELLED): frozenset({_R}),  # the worker saw the cancel first
    (State.RUNNING, State.QUEUED): frozenset({_R, _S}),
    (State.CANCELLING, State.CANCELLED): frozenset({_R, _S}),
    # A result that was on its way when the reader pressed Cancel is kept: it was measured.
    (State.CANCELLING, State.SUCCEEDED): frozenset({_R}),
}


class IllegalMoveError(Exception):
    """A transition that the table does not hold, or not for this writer: a defect in our code."""


def move(run: Run, to: State, by: Writer, **fields: object) -> bool:
    """Take `run` to state `to` if it still stands where the caller saw it; True if it did.

    On success `run` carries the new values. Raises IllegalMoveError for a transition that `by`
    may not make.
    """
    start = State(run.state)
    if by not in TRANSITIONS.get((start, to), frozenset()):
        raise IllegalMoveError(f"{by} may not move a run from {start} to {to}")
    fields = {**fields, "state": to, **(_closing(run, to, fields) if to in ENDED else {})}
    moved = Run.objects.filter(pk=run.pk, state=start, token=run.token).update(**fields)
    if not moved:
        return False
    for name, value in fields.items():
        setattr(run, name, value)
    if to in ENDED:
        news.info("Run %s of %s.%s: %s %s", run.pk, run.method, run.benchmark, to, run.reason)
    return True


def fail(run: Run, failure: Failure, reason: str, by: Writer) -> bool:
    """End an attempt that failed: queue the run once more after a failure of ours, else end it."""
    if run.state == State.CANCELLING:
        return move(run, State.CANCELLED, by)
    if failure.ours and run.attempt < ATTEMPTS:
        return _queue_again(run, by)
    return move(run, State.FAILED, by, failure=failure, reason=reason)


# What an attempt writes into its run: one that is given up leaves nothing that could be mistaken
# for the next one's.
OF_AN_ATTEMPT = (
    *("token", "worker", "environment", "progress", "progress_seq", "log_bytes"),
    *("dispatched_at", "sent_at", "start_by", "started_at", "leased_until", "finish_by"),
)


@transaction.atomic
def _queue_again(run: Run, by: Writer) -> bool:
    unstarted = Run()
    if not move(run, State.QUEUED, by, **{one: getattr(unstarted, one) for one in OF_AN_ATTEMPT}):
        return False
    for measured in (run.series, run.checks, run.artefacts):
        measured.all().delete()
    return True


def _closing(run: Run, to: State, fields: dict[str, object]) -> dict[str, object]:
    """What every end writes: when, and the device time it cost its reader."""
    now = timezone.now()
    # The clock may have been set back since: a run never ends before it started.
    finished_at = max(now, run.started_at) if run.started_at else now
    failure = fields.get("failure")
    ours = isinstance(failure, Failure) and failure.ours
    spent = finished_at - run.started_at if run.started_at and not ours else timedelta()
    return {
        "finished_at": finished_at,
        "leased_until": None,
        "progress": run.progress if to == State.SUCCEEDED else {},
        "charged_seconds": min(run.limit_seconds, -(-spent // timedelta(seconds=1))),
    }

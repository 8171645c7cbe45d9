"""The state machine of a run: its transitions, who may make them, and the code that does.

A transition is a compare-and-set on (state, token). If another process was first, `move` changes
nothing and returns False. The token identifies the attempt and is new at every dispatch, so
messages of an old attempt cannot change anything.
"""

import logging
from datetime import timedelta
from enum import StrEnum

from django.db import transaction
from django.utils import timezone

from webapp.runs.models import ENDED, Run, RunFailure, State

news = logging.getLogger("assay.news")  # shown on the terminal of `up`

ATTEMPTS = 2  # the first, and a retry after an infrastructure failure


class Writer(StrEnum):
    """Component that requests a transition."""

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
    # A result that was already on its way when the reader pressed Cancel is kept.
    (State.CANCELLING, State.SUCCEEDED): frozenset({_R}),
}


class IllegalMoveError(Exception):
    """A transition that is not in the table, or not for this writer: a bug."""


def move(run: Run, to: State, by: Writer, **fields: object) -> bool:
    """Move `run` to state `to`, unless its state or token has changed; whether it was moved.

    On success `run` has the new values. Raises IllegalMoveError for a transition that `by` may not
    make.
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


def fail(run: Run, failure: RunFailure, reason: str, by: Writer) -> bool:
    """End a failed attempt: retry the run once after an infrastructure failure, else end it."""
    if failure.ours and run.attempt < ATTEMPTS:
        return _queue_again(run, by)
    return move(run, State.FAILED, by, failure=failure, reason=reason)


# The fields that an attempt writes: they are reset before a retry, so that nothing of it is taken
# for the next attempt's.
OF_AN_ATTEMPT = (
    *("token", "worker", "environment", "progress", "progress_seq", "log_bytes"),
    *("dispatched_at", "sent_at", "start_by", "started_at", "leased_until", "finish_by"),
)


@transaction.atomic
def _queue_again(run: Run, by: Writer) -> bool:
    unstarted = Run()
    if not move(
        run, State.QUEUED, by, **{name: getattr(unstarted, name) for name in OF_AN_ATTEMPT}
    ):
        return False
    for measured in (run.series, run.checks, run.artefacts):
        measured.all().delete()
    return True


def _closing(run: Run, to: State, fields: dict[str, object]) -> dict[str, object]:
    """Fields that every end sets, among them the time and the device time charged."""
    now = timezone.now()
    # The clock may have been set back, but a run must not end before it started.
    finished_at = max(now, run.started_at) if run.started_at else now
    failure = fields.get("failure")
    ours = isinstance(failure, RunFailure) and failure.ours
    spent = finished_at - run.started_at if run.started_at and not ours else timedelta()
    return {
        "finished_at": finished_at,
        "leased_until": None,
        "progress": run.progress if to == State.SUCCEEDED else {},
        "charged_seconds": min(run.limit_seconds, -(-spent // timedelta(seconds=1))),
    }

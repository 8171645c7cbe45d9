"""The table of transitions, and the compare-and-set that keeps it."""

from __future__ import annotations

import itertools

import pytest

from tests.runs import saying
from webapp.runs import broker, record, states
from webapp.runs.models import ENDED, OPEN, Run, RunFailure, State
from webapp.runs.states import TRANSITIONS, IllegalMoveError, Writer, move

pytestmark = pytest.mark.django_db


def test_every_state_is_open_or_ended() -> None:
    assert {*OPEN, *ENDED} == set(State)
    assert not {*OPEN} & {*ENDED}


def test_nothing_leaves_an_end_and_everything_can_reach_one() -> None:
    assert not [start for start, _ in TRANSITIONS if start in ENDED]
    reached: set[State] = {State.QUEUED}
    while more := {to for start, to in TRANSITIONS if start in reached} - reached:
        reached |= more
    assert reached == set(State)
    for state in OPEN:
        assert any(start == state for start, _ in TRANSITIONS)


@pytest.mark.parametrize(("start", "to"), list(itertools.product(State, State)))
def test_only_the_table_moves(start: State, to: State) -> None:
    run = saying.queued(state=start, token="t")
    for writer in Writer:
        run.refresh_from_db()
        Run.objects.filter(pk=run.pk).update(state=start)
        run.state = start
        if writer in TRANSITIONS.get((start, to), ()):
            assert move(run, to, writer)
            assert Run.objects.get(pk=run.pk).state == to
        else:
            with pytest.raises(IllegalMoveError):
                move(run, to, writer)
            assert Run.objects.get(pk=run.pk).state == start


def test_the_second_of_two_writers_changes_nothing() -> None:
    run = saying.dispatched()
    twin = Run.objects.get(pk=run.pk)
    assert move(run, State.CANCELLING, Writer.VIEW)
    assert not move(twin, State.RUNNING, Writer.RECORDER, reason="late")
    assert twin.state == State.DISPATCHED, "the loser's copy is as it was"
    assert Run.objects.get(pk=run.pk).reason == ""


def test_the_end_of_a_run_is_news(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "assay.news")
    run = saying.dispatched()
    assert move(run, State.RUNNING, Writer.RECORDER)
    assert not caplog.messages
    assert move(run, State.SUCCEEDED, Writer.RECORDER)
    (line,) = caplog.messages
    assert line.startswith(f"Run {run.pk} of ")
    assert "succeeded" in line


@pytest.mark.parametrize(
    ("end", "kept"), [(State.SUCCEEDED, {"fraction": 1.0}), (State.FAILED, {})]
)
def test_only_a_run_that_succeeds_keeps_its_progress(end: State, kept: dict[str, float]) -> None:
    run = saying.dispatched()
    assert move(run, State.RUNNING, Writer.RECORDER, progress={"fraction": 1.0})
    assert move(run, end, Writer.RECORDER)
    assert Run.objects.get(pk=run.pk).progress == kept


def test_a_stale_token_changes_nothing() -> None:
    run = saying.dispatched()
    stale = Run.objects.get(pk=run.pk)
    Run.objects.filter(pk=run.pk).update(token="the-next")
    assert not move(stale, State.RUNNING, Writer.RECORDER)


@pytest.mark.parametrize("failure", list(RunFailure))
def test_only_failures_of_ours_are_tried_again_and_only_once(failure: RunFailure) -> None:
    worker = saying.live_worker()
    run = saying.running(worker)
    assert states.fail(run, failure, "because", Writer.RECORDER)
    assert run.state == (State.QUEUED if failure.ours else State.FAILED)
    if not failure.ours:
        return
    again = saying.running(worker, attempt=1)
    assert states.fail(again, failure, "because", Writer.RECORDER)
    assert (again.state, again.failure, again.charged_seconds) == (State.FAILED, failure, 0)


def test_a_retry_keeps_nothing_that_the_lost_attempt_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker, "send_job", lambda *_: True)
    run = saying.running(saying.live_worker())
    for seq, body in enumerate((saying.series(), saying.check(), saying.artefact())):
        assert record.store_event(saying.say(run, seq, body))
    run.refresh_from_db()
    assert states.fail(run, RunFailure.WORKER_LOST, "It was lost.", Writer.SWEEP)
    left = (run.series, run.checks, run.artefacts)
    assert [measured.count() for measured in left] == [0, 0, 0]

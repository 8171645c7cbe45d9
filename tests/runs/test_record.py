"""Events that are lost, doubled, reordered, late, forged, replayed, oversized or malformed."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from methods import protocol
from methods.protocol.messages import _signature
from tests.runs import saying
from tests.runs.saying import say
from webapp.runs import broker, heartbeats, keys, states, submit
from webapp.runs.models import Event, Run, Series, State, Worker
from webapp.runs.queries import log_of
from webapp.runs.record import MAX_LOG_BYTES, store_event

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def orders(monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks) -> list[tuple]:
    """Broadcast messages, recorded; nothing is dispatched during a test."""
    sent: list[tuple] = []
    monkeypatch.setattr(broker, "cancel", lambda *order: sent.append(tuple(map(str, order))))
    monkeypatch.setattr(broker, "send_job", lambda *_: True)
    return sent


@pytest.fixture
def worker() -> Worker:
    return saying.live_worker()


@pytest.fixture
def run(worker: Worker) -> Run:
    return saying.dispatched()


def everything(run: Run) -> dict[str, object]:
    """The state of a run that a reader can see."""
    run.refresh_from_db()
    return {
        "state": run.state,
        "worker": run.worker and run.worker.name,
        "environment": run.environment and run.environment.hardware,
        "series": [(s.name, s.data) for s in run.series.all()],
        "checks": list(run.checks.values_list("name", "passed")),
        "log": log_of(run),
        "result": run.result,
        "log_bytes": run.log_bytes,
    }


def test_a_good_run(run: Run) -> None:
    for message in saying.whole_run(run):
        assert store_event(message)
    seen = everything(run)
    assert seen["state"] == State.SUCCEEDED
    assert seen["log"] == "hello\nworld\n"
    assert seen["checks"] == [("clock_runs", True)]
    assert seen["environment"] == "a processor, 2 cores"
    assert run.progress["fraction"] == 1.0
    taken = run.finished_at - run.started_at
    assert run.charged_seconds == math.ceil(taken.total_seconds())


@pytest.fixture
def in_order(worker: Worker) -> dict[str, object]:
    """The state of a run whose messages came in order."""
    run = saying.dispatched()
    for message in saying.whole_run(run):
        store_event(message)
    return everything(run)


@settings(
    max_examples=min(40, settings.default.max_examples),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32), doubles=st.integers(0, 8))
def test_order_and_doubles_change_nothing(
    in_order: dict[str, object], seed: int, doubles: int
) -> None:
    """Whatever order a run's messages come in, and however often, the run reads the same."""
    shuffled = saying.dispatched()
    chance = random.Random(seed)
    messages = saying.whole_run(shuffled)
    messages += chance.choices(messages, k=doubles)
    chance.shuffle(messages)
    for message in messages:
        store_event(message)
    assert everything(shuffled) == in_order
    assert Event.objects.filter(run=shuffled, kind="result").count() == 1


def test_a_lost_piece_of_log_shows(run: Run) -> None:
    messages = saying.whole_run(run)
    del messages[3]
    for message in messages:
        store_event(message)
    assert log_of(run) == "\n[6 bytes of the log were lost]\nworld\n"


def test_what_an_old_attempt_says_is_dropped_and_answered(run: Run, orders: list[tuple]) -> None:
    old = saying.whole_run(run)
    Run.objects.filter(pk=run.pk).update(token="the-next-attempt")
    with_commit(lambda: [store_event(message) for message in old])
    run.refresh_from_db()
    assert run.state == State.DISPATCHED
    assert not run.events.exists()
    assert orders == [(str(run.pk), run_token(old), "one")] * len(old)


def run_token(messages: list[dict]) -> str:
    return messages[0]["token"]


def with_commit(call):
    """Do it, with what waits for the commit."""
    from django.test import TestCase

    with TestCase.captureOnCommitCallbacks(execute=True):
        return call()


def test_a_second_worker_with_the_same_attempt_is_told_to_stop(
    run: Run, orders: list[tuple]
) -> None:
    saying.live_worker("two")
    assert store_event(say(run, 0, saying.started()))
    assert not with_commit(lambda: store_event(say(run, 1, saying.result(), worker="two")))
    run.refresh_from_db()
    assert (run.state, run.worker.name) == (State.RUNNING, "one")
    assert orders == [(str(run.pk), run.token, "two")]


def test_a_worker_that_missed_the_cancel_is_told_again(run: Run, orders: list[tuple]) -> None:
    store_event(say(run, 0, saying.started()))
    run.refresh_from_db()
    assert submit.cancel(run)
    orders.clear()
    assert with_commit(lambda: store_event(say(run, 1, saying.check())))
    assert orders == [(str(run.pk), run.token, "one")]


def test_a_worker_that_goes_on_after_the_end_is_told_to_stop(
    run: Run, worker: Worker, orders: list[tuple]
) -> None:
    """By its progress; a last piece of the log is kept."""
    store_event(say(run, 0, saying.started()))
    run.refresh_from_db()
    states.move(run, State.FAILED, states.Writer.SWEEP)
    assert with_commit(lambda: store_event(say(run, 1, protocol.Log(offset=0, text="late"))))
    assert orders == []
    progress = protocol.Progress(fraction=0.5, elapsed=1.0)
    assert not with_commit(lambda: store_event(say(run, 2, progress)))
    assert orders == [(str(run.pk), run.token, worker.name)]


def test_the_next_run_is_dispatched_when_one_ends(run: Run) -> None:
    following = saying.queued()
    for message in saying.whole_run(run):
        store_event(message)
    following.refresh_from_db()
    assert following.state == State.DISPATCHED


def test_forged(run: Run, worker: Worker) -> None:
    """Signed with no key, another worker's, or a rotated one; or changed after it was signed."""
    good = say(run, 0, saying.result())
    saying.live_worker("mallory")
    forged = [
        {**good, "sig": "0" * 64},
        {**good, "seq": 1},
        {**good, "worker": "mallory"},
        {**good, "worker": "nobody"},
        {**good, "body": {**good["body"], "duration": 0.001}},
        {name: value for name, value in good.items() if name != "sig"},
    ]
    for message in forged:
        assert not store_event(message)
    keys.issue("one", rotate=True)
    assert not store_event(good)
    Worker.objects.filter(name="one").delete()
    assert not store_event(good)
    run.refresh_from_db()
    assert run.state == State.DISPATCHED


def test_replayed(run: Run) -> None:
    messages = saying.whole_run(run)
    for message in messages:
        store_event(message)
    before = everything(run)
    for message in messages:
        store_event(message)
    assert everything(run) == before


@pytest.mark.parametrize(
    "message",
    [None, 1, "text", [], {}, {"sig": 1}, {"sig": "x", "worker": ["one"]}, {"worker": "one" * 99}],
)
def test_malformed(run: Run, message: object) -> None:
    assert not store_event(message)
    assert not heartbeats.record_heartbeat(message)


def test_oversized(run: Run, worker: Worker) -> None:
    """Signed all the same: a worker that has gone mad."""
    good = say(run, 0, protocol.Log(offset=0, text="x"))
    data = {name: value for name, value in good.items() if name != "sig"}
    for body in ({"offset": 0, "text": "x" * 9_000}, {"offset": 0, "text": "x" * 5_000_000}):
        data["body"] = body
        signature = _signature(protocol.Event, data, keys.key_of(worker))
        assert not store_event({**data, "sig": signature})
    assert not run.events.exists()


def test_numbers_that_are_none(run: Run, worker: Worker) -> None:
    good = say(run, 0, saying.result())
    assert not store_event({**good, "body": {**good["body"], "duration": float("nan")}})


@pytest.mark.parametrize("piece", ["x" * 8192, "x" * 8000, "é" * 4000, "€" * 2000])
def test_the_log_of_a_run_ends_at_one_mebibyte(run: Run, piece: str) -> None:
    size = len(piece.encode())
    for number in range(MAX_LOG_BYTES // size + 2):
        store_event(say(run, number, protocol.Log(offset=size * number, text=piece)))
    run.refresh_from_db()
    stored = log_of(run)
    assert MAX_LOG_BYTES - len(piece[0].encode()) < run.log_bytes <= MAX_LOG_BYTES
    assert len(stored.encode()) == run.log_bytes
    assert set(stored) == {piece[0]}


def test_too_many_series(run: Run) -> None:
    taken = [store_event(say(run, n, saying.series(f"s{n}"))) for n in range(110)]
    assert sum(taken) == 100
    assert Series.objects.filter(run=run).count() == 100


def test_a_result_beats_a_cancel_that_came_too_late(run: Run) -> None:
    store_event(say(run, 0, saying.started()))
    run.refresh_from_db()
    submit.cancel(run)
    for seq, body in enumerate((saying.check(), saying.series(), saying.result()), 1):
        store_event(say(run, seq, body))
    store_event(say(run, 4, protocol.Cancelled()))
    assert everything(run)["state"] == State.SUCCEEDED


def test_a_failure_of_the_method_is_final_and_charged(run: Run) -> None:
    store_event(say(run, 0, saying.started()))
    Run.objects.update(started_at=run.dispatched_at.replace(year=run.dispatched_at.year - 1))
    store_event(say(run, 1, protocol.Failed(kind="error", message="no", detail="at line 3")))
    run.refresh_from_db()
    assert (run.state, run.failure, run.attempt) == (State.FAILED, "error", 1)
    assert run.charged_seconds == run.limit_seconds
    assert "at line 3" in run.reason


@pytest.mark.parametrize(("kind", "state"), [("timeout", "timed_out"), ("memory", "failed")])
def test_a_limit_is_final(run: Run, kind: str, state: str) -> None:
    store_event(say(run, 0, protocol.Failed(kind=kind, message="too much")))
    run.refresh_from_db()
    assert (run.state, run.attempt) == (state, 1)


@pytest.mark.parametrize("kind", ["timeout", "error", "killed"])
def test_a_run_that_fails_while_it_is_cancelled_is_cancelled(run: Run, kind: str) -> None:
    store_event(say(run, 0, saying.started()))
    run.refresh_from_db()
    submit.cancel(run)
    store_event(say(run, 1, protocol.Failed(kind=kind, message="no")))
    run.refresh_from_db()
    assert (run.state, run.failure) == (State.CANCELLED, "")


def test_a_failure_of_ours_is_tried_again_and_leaves_nothing_behind(run: Run) -> None:
    Worker.objects.update(last_seen=None)  # nobody takes it meanwhile
    for message in saying.whole_run(run)[:-1]:
        store_event(message)
    store_event(say(run, 7, protocol.Failed(kind="killed", message="from outside")))
    seen = everything(run)
    assert (seen["state"], seen["series"], seen["checks"], seen["log"]) == ("queued", [], [], "")
    assert seen["environment"] is seen["worker"] is None


@pytest.mark.parametrize("lost", [1, 2, 6], ids=["started", "check", "series"])
def test_a_result_waits_for_all_that_it_names(run: Run, lost: int) -> None:
    """Events of a killed recorder are delivered again; until then the run goes on."""
    messages = saying.whole_run(run)
    for message in messages[:lost] + messages[lost + 1 :]:
        assert store_event(message)
    run.refresh_from_db()
    assert (run.state, run.result) == (State.RUNNING, None)
    assert run.leased_until is not None
    assert store_event(messages[lost])
    seen = everything(run)
    assert (seen["state"], len(seen["series"]), len(seen["checks"])) == (State.SUCCEEDED, 1, 1)
    assert seen["environment"]
    assert run.result["series"] == ["latency"]


def test_a_result_waits_for_the_files_it_counts(run: Run) -> None:
    for message in saying.whole_run(run)[:-1]:
        store_event(message)
    store_event(
        say(run, 9, protocol.Result(duration=1, checks=1, series=("latency",), artefacts=1))
    )
    assert everything(run)["state"] == State.RUNNING
    store_event(say(run, 8, saying.artefact()))
    assert everything(run)["state"] == State.SUCCEEDED


def test_nothing_that_was_measured_changes_after_success(run: Run) -> None:
    for message in saying.whole_run(run):
        store_event(message)
    before = everything(run)
    assert not store_event(say(run, 8, saying.series(median=99.0)))
    assert not store_event(say(run, 9, saying.check("another")))
    assert everything(run) == before


def test_hostile_texts_are_stripped(run: Run) -> None:
    store_event(
        say(run, 0, protocol.Log(offset=0, text="\x1b[31mred\x1b[0m \u202eevil\x00\x07 <b>"))
    )
    assert log_of(run) == "red evil <b>"


def test_unknown_run(run: Run) -> None:
    assert not store_event(say(run, 0, saying.result(), run="5" * 32))
    assert not store_event(say(run, 0, saying.result(), run="nonsense"))

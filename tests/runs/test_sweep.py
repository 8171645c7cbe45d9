"""Effects of time: leases, grace, lost sends, limits, heartbeats, by the database's clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.runs import saying
from webapp.runs import broker, heartbeats, states, sweep
from webapp.runs.models import PeriodicTask, Run, State, Worker
from webapp.runs.times import CANCEL, HEARTBEAT, LEASE, PAUSE, RESEND, START

pytestmark = pytest.mark.django_db


class Sent(list):
    """Messages for the broker, recorded."""

    def names(self) -> list[str]:
        return [name for name, *_ in self]


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    sent = Sent()
    for name in ("cancel", "send_job", "request_lease_check"):
        said = lambda *args, name=name: sent.append((name, *args)) is None  # noqa: E731
        monkeypatch.setattr(broker, name, said)
    return sent


@pytest.fixture
def listening() -> None:
    """The last lease check was a moment ago."""
    PeriodicTask.objects.create(name=sweep.LEASE_CHECK, done_at=timezone.now())


def long_ago(run: Run, **fields: timedelta) -> None:
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(**{name: now - ago for name, ago in fields.items()})
    run.refresh_from_db()


def check_leases(late: timedelta = timedelta()) -> None:
    sweep.expire_leases((timezone.now() - late).timestamp())


@pytest.mark.parametrize("pause", [timedelta(), HEARTBEAT, PAUSE * 2, -timedelta(hours=1)])
def test_a_site_without_runs_counts_as_listening(pause: timedelta) -> None:
    """So the first run after a quiet hour, or a step of the clock, is not taken for a late one."""
    worker = saying.live_worker(last_seen=timezone.now() + timedelta(hours=1))
    PeriodicTask.objects.create(name=sweep.LEASE_CHECK, done_at=timezone.now() - pause)
    assert sweep.is_idle()
    worker.refresh_from_db()
    if pause not in (timedelta(), HEARTBEAT):  # as after any pause
        assert worker.last_seen <= timezone.now()
    run = saying.running(saying.live_worker("two", last_seen=None))
    assert not sweep.is_idle()
    long_ago(run, leased_until=timedelta(seconds=1))
    check_leases()
    run.refresh_from_db()
    assert run.state != State.RUNNING


def test_a_silent_worker_loses_its_run(listening: None) -> None:
    run = saying.running(saying.live_worker(last_seen=None))
    check_leases()
    run.refresh_from_db()
    assert run.state == State.RUNNING
    long_ago(run, leased_until=timedelta(seconds=1))
    check_leases()
    run.refresh_from_db()
    assert (run.state, run.token, run.worker) == (State.QUEUED, "", None)


def test_a_worker_that_lost_its_run_is_told_to_stop(listening: None, sent: Sent) -> None:
    run = saying.running(saying.live_worker())
    token = run.token
    long_ago(run, leased_until=timedelta(seconds=1))
    check_leases()
    assert ("cancel", run.pk, token) in sent


def test_a_worker_that_is_heard_while_leases_are_checked_keeps_its_run(listening: None) -> None:
    """Another process takes its heartbeat right after the late runs were read."""
    run = saying.running(saying.live_worker())
    long_ago(run, leased_until=timedelta(seconds=1))
    heard = False

    def watch(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal heard
        result = execute(sql, *rest)
        if not heard and "leased_until" in sql.partition("WHERE")[2]:
            heard = True
            Run.objects.filter(pk=run.pk).update(leased_until=timezone.now() + LEASE)
        return result

    with connection.execute_wrapper(watch):
        check_leases()
    run.refresh_from_db()
    assert heard
    assert (run.state, run.attempt) == (State.RUNNING, 1)


def test_a_worker_lost_twice_fails_the_run(listening: None) -> None:
    run = saying.running(saying.live_worker(), attempt=1)
    long_ago(run, leased_until=timedelta(seconds=1))
    check_leases()
    run.refresh_from_db()
    assert (run.state, run.failure, run.charged_seconds) == (State.FAILED, "worker_lost", 0)
    assert "one" in run.reason


@pytest.mark.parametrize("why", ["first", "paused", "backlog"])
def test_our_own_silence_is_forgiven(why: str) -> None:
    if why != "first":
        pause = PAUSE * 2 if why == "paused" else timedelta()
        PeriodicTask.objects.create(name=sweep.LEASE_CHECK, done_at=timezone.now() - pause)
    run, unstarted = saying.running(saying.live_worker()), saying.dispatched()
    ago = timedelta(hours=1)
    long_ago(run, leased_until=ago, finish_by=ago)
    long_ago(unstarted, start_by=ago)
    check_leases(late=HEARTBEAT * 2 if why == "backlog" else timedelta())
    run.refresh_from_db()
    unstarted.refresh_from_db()
    assert (run.state, unstarted.state) == (State.RUNNING, State.DISPATCHED)
    assert run.leased_until > timezone.now() + LEASE / 2


@pytest.mark.parametrize(
    ("deadline", "extended"),
    [
        (-LEASE, LEASE),
        ((LEASE + START) / 2, (LEASE + START) / 2),  # what is left is enough, and no more than all
        (2 * START, LEASE),  # of an earlier clock
    ],
)
def test_a_pause_extends_only_deadlines_that_have_passed_or_lie_too_far_ahead(
    deadline: timedelta, extended: timedelta
) -> None:
    now, run = timezone.now(), saying.dispatched()
    Run.objects.filter(pk=run.pk).update(start_by=now + deadline)
    sweep._extend_leases(now)
    run.refresh_from_db()
    assert run.start_by == now + extended


def test_a_heartbeat_renews_the_lease_of_the_run_it_names() -> None:
    worker = saying.live_worker()
    run, other = saying.running(worker), saying.running(worker)
    for each in (run, other):
        long_ago(each, leased_until=timedelta(seconds=1))
    assert heartbeats.record_heartbeat(saying.beat("one", "boot", 0, run))
    run.refresh_from_db()
    other.refresh_from_db()
    assert run.leased_until > timezone.now() > other.leased_until


def test_a_heartbeat_for_an_attempt_given_up_is_answered(sent: Sent) -> None:
    run = saying.running(saying.live_worker())
    stale = saying.beat("one", "boot", 0, run)
    Run.objects.update(token="the-next")
    heartbeats.record_heartbeat(stale)
    assert sent == [("cancel", str(run.pk), stale["token"], "one")]


def test_a_run_that_begins_while_its_worker_is_heard_is_not_given_up(sent: Sent) -> None:
    """Another process records its first event between any two of the heartbeat's statements."""
    worker = saying.live_worker()

    def statements(begins_after: int) -> int:
        run, count = saying.dispatched(), 0

        def watch(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            nonlocal count
            result = execute(sql, *rest)
            if (count := count + 1) == begins_after:
                Run.objects.filter(pk=run.pk).update(state=State.RUNNING, worker=worker)
            return result

        with connection.execute_wrapper(watch):
            assert heartbeats.record_heartbeat(saying.beat("one", f"boot-{begins_after}", 0, run))
        return count

    for step in range(1, statements(0) + 1):
        statements(step)
    assert "cancel" not in sent.names()


def test_replayed_heartbeats_keep_nobody_alive() -> None:
    saying.live_worker(last_seen=None)
    first = [saying.beat("one", "boot-1", number) for number in range(3)]
    for message in first:
        assert heartbeats.record_heartbeat(message)
    assert heartbeats.record_heartbeat(saying.beat("one", "boot-2", 0))
    Worker.objects.update(last_seen=None)
    assert not any(heartbeats.record_heartbeat(message) for message in first)
    assert not heartbeats.record_heartbeat(saying.beat("one", "boot-2", 0))
    assert Worker.objects.get().last_seen is None
    assert heartbeats.record_heartbeat(saying.beat("one", "boot-2", 1))


def test_a_worker_announces_itself() -> None:
    saying.live_worker(last_seen=None, device="")
    heartbeats.record_heartbeat(saying.beat("one", "boot", 0))
    worker = Worker.objects.get()
    assert (worker.device, worker.device_name, worker.memory_mib) == ("cpu", "a processor", 4096)


def test_lost_sends_are_repeated_with_the_same_token(sent: Sent) -> None:
    saying.live_worker()
    run = saying.dispatched()
    sweep.sweep()
    assert "send_job" not in sent.names()
    long_ago(run, sent_at=RESEND * 2)
    sweep.sweep()
    assert [args[0].token for name, *args in sent if name == "send_job"] == [run.token]


def test_committed_and_never_sent(sent: Sent) -> None:
    saying.live_worker()
    run = saying.dispatched()
    long_ago(run, dispatched_at=RESEND * 2)
    Run.objects.update(sent_at=None)
    sweep.sweep()
    assert "send_job" in sent.names()
    run.refresh_from_db()
    assert run.sent_at


def test_never_started(listening: None) -> None:
    run = saying.dispatched()
    long_ago(run, start_by=timedelta(seconds=1))
    check_leases()
    run.refresh_from_db()
    assert (run.state, run.attempt) == (State.QUEUED, 1)
    again = saying.dispatched(attempt=1)
    long_ago(again, start_by=timedelta(seconds=1))
    check_leases()
    again.refresh_from_db()
    assert (again.state, again.failure, again.charged_seconds) == (State.FAILED, "worker_lost", 0)


def test_a_cancel_is_repeated_and_then_taken_as_done(listening: None, sent: Sent) -> None:
    run = saying.running(saying.live_worker())
    Run.objects.update(state=State.CANCELLING, cancelling_at=timezone.now())
    sweep.sweep()
    check_leases()
    run.refresh_from_db()
    assert run.state == State.CANCELLING
    assert "cancel" in sent.names()
    long_ago(run, cancelling_at=CANCEL * 2)
    check_leases()
    run.refresh_from_db()
    assert run.state == State.CANCELLED


def test_a_worker_that_ignores_the_time_limit(listening: None, sent: Sent) -> None:
    run = saying.running(saying.live_worker())
    long_ago(run, finish_by=timedelta(seconds=1))
    check_leases()
    run.refresh_from_db()
    assert run.state == State.TIMED_OUT
    assert sent.names().count("cancel") == 1


def test_a_worker_that_says_farewell_is_given_nothing() -> None:
    saying.live_worker()
    run = saying.queued()
    heartbeats.record_heartbeat(saying.beat("one", "boot", 0, leaving=True))
    sweep.sweep()
    run.refresh_from_db()
    assert run.state == State.QUEUED
    heartbeats.record_heartbeat(saying.beat("one", "boot-2", 0))
    run.refresh_from_db()
    assert run.state == State.DISPATCHED


def test_at_rest_it_sends_nothing_and_asks_little(
    listening: None, sent: Sent, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(7):
        sweep.sweep()
    assert sent == []
    assert PeriodicTask.objects.get().done_at > timezone.now() - PAUSE


def test_at_rest_a_clock_that_was_set_back_keeps_no_dead_worker_alive(
    listening: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = saying.live_worker()
    clock_moved(monkeypatch, -HOUR)
    sweep.sweep()
    worker.refresh_from_db()
    assert worker.last_seen
    assert worker.last_seen <= timezone.now()


def test_a_pause_is_told_from_rest(sent: Sent) -> None:
    """Leases that ran out while nobody looked start anew; rest before a run is no such pause."""
    PeriodicTask.objects.create(name=sweep.LEASE_CHECK, done_at=timezone.now() - HOUR)
    sweep.sweep()
    run = saying.running(saying.live_worker())
    long_ago(run, leased_until=timedelta(seconds=1))
    sweep.sweep()
    assert sent.names() == ["request_lease_check"]
    check_leases()
    run.refresh_from_db()
    assert run.state == State.QUEUED


def test_a_broker_that_is_down_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("send_job", "request_lease_check"):
        monkeypatch.setattr(broker, name, lambda *_: False)
    saying.live_worker()
    run = saying.queued()
    sweep.sweep()
    run.refresh_from_db()
    assert (run.state, run.sent_at) == (State.DISPATCHED, None)


HOUR = timedelta(hours=1)


def clock_moved(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + by)


@pytest.mark.parametrize("end", [State.TIMED_OUT, State.CANCELLED, State.FAILED])
def test_a_run_can_end_after_the_clock_was_set_back(
    end: State, listening: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = saying.running(saying.live_worker())
    clock_moved(monkeypatch, -HOUR)
    assert states.move(run, end, states.Writer.RECORDER, reason="the end")
    run.refresh_from_db()
    assert run.started_at
    assert run.finished_at == run.started_at
    assert run.charged_seconds == 0


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_step_of_the_clock_costs_no_run_and_freezes_none(
    by: timedelta, listening: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = saying.live_worker()
    running, sent = saying.running(worker), saying.dispatched()
    clock_moved(monkeypatch, by)
    check_leases()
    for run in (running, sent):
        before = run.state
        run.refresh_from_db()
        assert run.state == before
    # From here on silence counts as ever: both are given up when their new deadlines pass.
    clock_moved(monkeypatch, PAUSE / 2)
    for _ in range(9):
        check_leases()
        clock_moved(monkeypatch, PAUSE / 2)
    check_leases()
    for run in (running, sent):
        run.refresh_from_db()
        assert (run.state, run.attempt, run.token) == (State.QUEUED, 1, "")
    worker.refresh_from_db()
    assert worker.last_seen
    assert worker.last_seen <= timezone.now() - LEASE


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_step_of_the_clock_leaves_a_run_the_time_it_was_given(
    by: timedelta, listening: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the worker then knows how long it has run, and ends it at its limit."""
    worker = saying.live_worker()
    run = saying.running(worker)
    clock_moved(monkeypatch, by)
    check_leases()
    beats = timedelta(seconds=run.limit_seconds) // (PAUSE / 2)
    for number in range(beats):
        clock_moved(monkeypatch, PAUSE / 2)
        assert heartbeats.record_heartbeat(saying.beat("one", "boot", number, run))
        check_leases()
    run.refresh_from_db()
    assert run.state == State.RUNNING
    for number in range(beats, 2 * beats):
        clock_moved(monkeypatch, PAUSE / 2)
        heartbeats.record_heartbeat(saying.beat("one", "boot", number, run))
        check_leases()
    run.refresh_from_db()
    assert run.state == State.TIMED_OUT


def test_one_run_that_cannot_be_ended_keeps_no_other_from_it(
    listening: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (saying.running(saying.live_worker()) for _ in range(2))
    for run in (one, two):
        long_ago(run, leased_until=timedelta(seconds=1))
    real = states.fail

    def fail(run: Run, *rest: Any) -> bool:
        if run.pk == min(one.pk, two.pk, key=str):
            raise ValueError("a row that nobody foresaw")
        return real(run, *rest)

    monkeypatch.setattr(states, "fail", fail)
    check_leases()
    for run in (one, two):
        run.refresh_from_db()
    assert {one.state, two.state} == {State.RUNNING, State.QUEUED}

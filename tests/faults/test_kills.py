"""Processes that are killed under a run: the run ends well, once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from importlib import import_module

import pytest
from django.utils import timezone

from tests.processes import FOREVER, forked, idle_seconds_until, processes_of, wait_for
from tests.runs.asking import ask, ended, killed_later, measuring, reached
from tests.runs.rig import Rig
from webapp.runs import submit
from webapp.runs.dispatch import dispatch
from webapp.runs.models import Run, State, Worker


def children_of(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def reapers_at_work(rig: Rig) -> list[int]:
    found = rig.benchmarks().items()
    return [pid for pid, command in found if "reaper.py" in command and children_of(pid)]


def measured_once(run: Run) -> None:
    """One result, one table, one set of checks."""
    assert run.state == State.SUCCEEDED, (run.state, run.failure, run.reason)
    assert run.events.filter(token=run.token, kind="result").count() == 1
    assert [len(series.data["points"]) for series in run.series.all()] == [5]
    assert run.checks.count() == 1
    assert run.leased_until is None


def nothing_left(rig: Rig) -> None:
    wait_for(lambda: not rig.benchmarks(), "the end of every benchmark process")


def test_a_run_is_measured(rig: Rig) -> None:
    run = ended(ask(words="hello"))
    measured_once(run)
    assert run.attempt == 1
    assert run.environment is not None
    assert run.dispatched_at is not None
    assert run.finished_at is not None
    # What it took at most, not its whole limit: a busy machine takes longer and charges more.
    assert run.charged_seconds <= (run.finished_at - run.dispatched_at).total_seconds() + 1
    assert run.charged_seconds < run.limit_seconds
    nothing_left(rig)


def test_kill_9_of_the_workers_main_process(rig: Rig) -> None:
    run = killed_later()
    rig.kill("one")
    nothing_left(rig)
    rig.bench()
    measured_once(ended(run))
    assert run.attempt == 2


def test_kill_9_of_the_workers_child(rig: Rig) -> None:
    run = killed_later()
    for child in children_of(rig.running["one"].pid):
        os.kill(child, signal.SIGKILL)
    nothing_left(rig)
    measured_once(ended(run))
    assert run.attempt == 2


@pytest.mark.parametrize("victim", ["benchmark", "reaper"])
def test_kill_9_of_the_subprocess(rig: Rig, victim: str) -> None:
    run = killed_later()
    for pid, command in rig.benchmarks().items():
        if (victim == "reaper") == ("reaper.py" in command):
            os.kill(pid, signal.SIGKILL)
    measured_once(ended(run))
    assert run.attempt == 2
    nothing_left(rig)


def test_kill_9_of_the_reaper_and_of_the_workers_child_at_once(rig: Rig) -> None:
    """The next child ends the processes that the benchmark had forked."""
    run = ask("misbehave", how="forks_grandchildren")
    (reaper,) = wait_for(lambda: reapers_at_work(rig), "the reaper")
    os.kill(reaper, signal.SIGSTOP)
    wait_for(lambda: len(children_of(reaper)) == 3, "the benchmark's end and two orphans")
    wait_for(lambda: len(rig.benchmarks()) == 3, "the reaper and two orphans")
    for pid in (*children_of(rig.running["one"].pid), reaper):
        os.kill(pid, signal.SIGKILL)
    ended(run)
    assert (run.state, run.attempt) == (State.SUCCEEDED, 2)
    nothing_left(rig)


def test_kill_9_of_the_recorder(rig: Rig) -> None:
    run = measuring(ask(seconds=2))
    rig.kill("recorder")
    time.sleep(2 * rig.lease)  # long enough for every lease to run out unheard
    rig.recorder()
    measured_once(ended(run))
    assert run.attempt == 1, "it was our silence, not the worker's"


def test_kill_9_of_the_web_server_at_the_press_of_run(rig: Rig) -> None:
    """Committed, and killed before the broker was told: a sweep finds it."""
    before = set(Run.objects.values_list("pk", flat=True))
    _killed_at("webapp.runs.broker.kick", ask)
    run = Run.objects.exclude(pk__in=before).get()
    measured_once(ended(run))


def test_kill_9_of_a_dispatcher_between_commit_and_send(rig: Rig) -> None:
    rig.kill("recorder")
    run = ask()

    def dispatch_to_one_unheard() -> None:
        Worker.objects.update(last_seen=timezone.now())  # nobody listened meanwhile
        dispatch()

    _killed_at("webapp.runs.broker.send_job", dispatch_to_one_unheard)
    run.refresh_from_db()
    assert (run.state, run.sent_at) == (State.DISPATCHED, None)
    rig.recorder()
    measured_once(ended(run))
    assert run.attempt == 1


def _killed_at(function: str, act: Callable[[], object]) -> None:
    """Do something of the site's in a process that dies the moment it calls `function`."""

    def run() -> None:
        module, _, name = function.rpartition(".")
        setattr(import_module(module), name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        act()

    process = forked(run)
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_redis_killed_and_started_again(rig: Rig) -> None:
    run = measuring(ask(seconds=3))
    time.sleep(1.2)  # what Redis was told more than a second ago, it has written down
    rig.redis.kill()
    time.sleep(rig.lease)
    rig.redis.start()
    measured_once(ended(run))
    measured_once(ended(ask()))


def test_a_worker_told_to_stop_gives_its_run_back(rig: Rig) -> None:
    run = killed_later()
    rig.kill("one", signal.SIGTERM)
    reached(run, State.QUEUED)
    nothing_left(rig)
    rig.bench()
    measured_once(ended(run))
    assert run.attempt == 2


def test_a_worker_that_never_comes_back(rig: Rig) -> None:
    """Lost twice: the run fails, and costs its reader nothing."""
    run = measuring(ask(seconds=FOREVER))
    for attempt in (1, 2):
        run = reached(run, attempt=attempt)
        rig.kill("one")
        if attempt == 1:
            reached(run, State.QUEUED)
            rig.bench()
    ended(run)
    assert (run.state, run.failure, run.charged_seconds) == (State.FAILED, "worker_lost", 0)
    rig.bench()
    measured_once(ended(ask()))


def test_cancel_ends_a_run_within_two_seconds(rig: Rig) -> None:
    run = measuring(ask(seconds=FOREVER, steps=600))
    time.sleep(0.3)
    assert submit.cancel(run)

    def there_are() -> list[int]:
        return [*processes_of(rig.data), *rig.benchmarks()]

    def has_ended() -> bool:
        run.refresh_from_db()
        return run.ended

    assert idle_seconds_until(has_ended, "the end of the run", there_are) < 2.5
    assert run.state == State.CANCELLED
    assert run.result is None
    assert all(series.data["partial"] for series in run.series.all())
    nothing_left(rig)


def test_cancel_races_success(rig: Rig) -> None:
    """Whoever wins, the run ends once and says one thing."""
    seen = set()
    for wait in (0.0, 0.4, 0.7, 1.0, None):
        run = ask(seconds=FOREVER if wait == 0.0 else 0.1)  # the first loses, however slow we are
        if wait is None:
            ended(run)
        else:
            time.sleep(wait)
        submit.cancel(run)
        ended(run)
        seen.add(run.state)
        assert run.state in {State.SUCCEEDED, State.CANCELLED}
        assert (run.result is not None) == (run.state == State.SUCCEEDED)
    assert seen == {State.CANCELLED, State.SUCCEEDED}

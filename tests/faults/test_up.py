"""kill -9 of each process of the real `up`: everything is at work again, every run ends once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

import bootstrap
from tests.faults.test_kills import children_of, measured_once
from tests.faults.up_rig import ROLES, UpRig
from tests.processes import processes_of, wait_for
from tests.runs.asking import ask, ended, measuring

BACK_WITHIN = 60.0  # seconds; 15 on idle cores, and tests run on busy ones


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "victim" in metafunc.fixturenames:
        children = [f"{role} child" for role in ("web", "site", "events", "bench")]
        metafunc.parametrize("victim", ["supervisor", *ROLES, *children])


@pytest.fixture(scope="module")
def standing_up(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker
) -> Iterator[UpRig]:
    import sys

    if any(bootstrap.missing(group, sys.path) for group in ("web", "ml", "torch")):
        pytest.skip("needs the methods' requirements: python3 manage.py methods list")
    rig = UpRig(tmp_path_factory.mktemp("up"))
    rig.start_up()
    try:
        with django_db_blocker.unblock(), rig.connected():
            rig.wait_until_ready()
            yield rig
            rig.up.terminate()
            assert rig.up.wait(8) == 0
            assert not processes_of(rig.data), "the bench worker ends with the others"
    finally:
        rig.stop()


@pytest.fixture
def up_rig(standing_up: UpRig) -> UpRig:
    standing_up.wait_until_ready()
    return standing_up


def kill(rig: UpRig, victim: str) -> None:
    """Kill one process; the supervisor is started again, as whoever runs it would."""
    if victim == "supervisor":
        rig.up.kill()
        rig.up.wait()
        wait_for(lambda: not processes_of(rig.data), 15, "the end of all it had started")
        rig.start_up()
        return
    role, _, child = victim.partition(" ")
    pids = rig.pids(role)
    leader = next(pid for pid in pids if os.getpgid(pid) == pid)
    for pid in children_of(leader) if child else [leader]:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.xdist_group("up")
@pytest.mark.slow
def test_kill_9_idle_and_busy(up_rig: UpRig, victim: str) -> None:
    run = measuring(ask(seconds=2))
    kill(up_rig, victim)
    measured_once(ended(run))
    kill(up_rig, victim)  # idle by now
    began = time.monotonic()
    measured_once(ended(ask()))
    up_rig.wait_until_ready(BACK_WITHIN - (time.monotonic() - began))

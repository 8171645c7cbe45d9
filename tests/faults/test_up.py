"""The real `manage.py up` under kill -9 and on a full disk: it comes back by itself, and every
run ends once.

All tests share one `up`, which each leaves whole.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from django.db import OperationalError
from django.utils import timezone

import bootstrap
from tests import machine
from tests.faults.clocks import step
from tests.faults.small_disk import WHY_NOT, fill, make_room, small_disk
from tests.faults.test_kills import children_of, measured_once
from tests.faults.up_rig import QUEUES, ROLES, SMALL_QUEUES, UpRig
from tests.processes import PATIENCE, processes_of, wait_for
from tests.runs.asking import ask, ended, measuring
from webapp.runs.models import PeriodicTask, Worker

# Seconds in which nothing of `up` could run, since it waited for a timer, a lease or a lock. How
# long it computes besides depends on what else the machine does.
BACK_WITHIN = 15.0
# Seconds. A check of leases that waits for a sixth of them extends them, and beside the whole suite
# each check of the shortest leases waits so long: then no lost run is ever given up.
LEASE = 9
FULL_FOR = 6.0  # seconds: some sweeps and a heartbeat of the beat that cannot be written
REFUSED = "Redis cannot write: is its disk full or read-only?"
FORKING = ("web", "summaries")  # the bench worker's child: test_kills.py

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def standing_up(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker
) -> Iterator[UpRig]:
    if any(bootstrap.missing(group, sys.path) for group in ("web", "ml", "torch")):
        pytest.skip("needs the methods' requirements: python3 manage.py methods list")
    folder = tmp_path_factory.mktemp("up")
    with small_disk(folder):
        rig = UpRig(folder, lease=LEASE)
        rig.start_up()
        try:
            with django_db_blocker.unblock(), rig.connected():
                rig.wait_until_ready()
                yield rig
                rig.up.terminate()
                assert rig.up.wait(PATIENCE) == 0
                assert not processes_of(rig.data), "the bench worker ends with the others"
        finally:
            rig.stop()


@pytest.fixture
def rig(standing_up: UpRig) -> UpRig:
    standing_up.wait_until_ready()
    return standing_up


def kill(rig: UpRig, *victims: str) -> None:
    """Kill processes at once; the supervisor is started again, as whoever runs it would."""
    if "supervisor" in victims:
        rig.up.kill()
        rig.up.wait()
        try:
            wait_for(lambda: not processes_of(rig.data), "the end of all it had started")
        except AssertionError as error:
            raise AssertionError(f"these live on: {processes_of(rig.data)}") from error
        finally:
            rig.start_up()
        return
    for victim in victims:
        role, _, child = victim.partition(" ")
        pids = children_of(rig.leader(role)) if child else [rig.leader(role)]
        assert pids, f"no {victim} to kill"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def comes_back_after_kill(rig: UpRig, *victims: str) -> None:
    """Kill them; every process works anew, and no more than `BACK_WITHIN` passed in waiting."""
    replaced = {"bench", "supervisor"} & {*victims}
    lost = Worker.objects.get(name="local").boot if replaced else ""
    kill(rig, *victims)
    beat = bool({"site", "supervisor"} & {*victims})
    waited = rig.wait_until_back(timezone.now(), lost=lost, beat=beat)
    assert waited <= BACK_WITHIN, f"{victims}: {waited:.1f} s of waiting\n{rig.last_lines()}"


def keep_busy(rig: UpRig, victims: Sequence[str], over: Event) -> Thread:
    """Give the processes something to do while they are killed."""

    begun = time.monotonic()
    roles = {victim.split(maxsplit=1)[0] for victim in victims}

    def read_pages() -> None:
        # One after another where the victim dies; then as readers do, and others may compute.
        while not over.wait(0.0 if time.monotonic() < begun + 1 else 0.3):
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{rig.port}/").read()

    for queue in (roles & {*QUEUES}) | ({*SMALL_QUEUES} if "site" in roles else set()):
        rig.send_tokens(queue, 80)
    reading = Thread(target=read_pages if "web" in roles else lambda: None)
    reading.start()
    return reading


CHILDREN = [f"{role} child" for role in FORKING]
# Nothing starts the supervisor again but its user, and all others wait for Redis.
OTHERS = [role for role in ROLES if role != "redis"]


@pytest.mark.parametrize(
    "victims", [["supervisor"], *([role] for role in ROLES), OTHERS, CHILDREN], ids=" and ".join
)
def test_kill_9_while_busy(rig: UpRig, victims: list[str]) -> None:
    """Kill each leader in turn while the others go on, all of them at once, and their children."""
    run = measuring(ask(seconds=2))
    over = Event()
    reading = keep_busy(rig, victims, over)
    try:
        comes_back_after_kill(rig, *victims)
        measured_once(ended(run))
    finally:
        over.set()
        reading.join()


@pytest.mark.parametrize("offset", ["+1h", "-1h"])
def test_a_clock_that_steps_while_a_run_is_measured(rig: UpRig, offset: str) -> None:
    """No run is lost or frozen, neither while the site's clock is wrong nor when it is right."""
    if not rig.fake:
        pytest.skip(machine.FAKETIME.why_not)
    run = measuring(ask(seconds=3))
    step(rig.clock, offset)
    try:
        measured_once(ended(run))
        measured_once(ended(ask(seconds=1)))
    finally:
        step(rig.clock, "+0")
    set_right = timezone.now()
    measured_once(ended(ask(seconds=1)))

    def sweeps() -> bool:
        return PeriodicTask.objects.filter(done_at__range=(set_right, timezone.now())).exists()

    wait_for(sweeps, "a sweep, which the beat asks for")
    rig.wait_until_ready()


def _ask_until_full(disk: Path) -> None:
    """The log has the room that it had before, and who ends a file gives some back."""
    for _ in range(40):
        fill(disk)
        for _ in range(50):
            ask(words="x" * 200)


@pytest.mark.root
def test_a_full_disk(rig: UpRig) -> None:
    """Pages are read, processes live on, nothing breaks, and room is all it needs."""
    if not rig.data.is_mount():
        pytest.skip(WHY_NOT)
    leaders = {role: rig.leader(role) for role in ROLES}
    with sqlite3.connect(rig.data / "assay.sqlite3") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else it has room of its own
    database.close()
    fill(rig.data)
    began, unready = time.monotonic(), set()
    while time.monotonic() - began < FULL_FOR or REFUSED not in unready:
        fill(rig.data)
        for page in ("/", "/runs/", "/workers/", "/methods/"):
            with urllib.request.urlopen(f"http://127.0.0.1:{rig.port}{page}") as got:
                assert got.status == 200
        with pytest.raises(OperationalError, match="is full"):
            _ask_until_full(rig.data)
        unready |= {check["detail"] for check in rig.checks().values() if not check["ok"]}
        time.sleep(0.5)
    assert rig.up.poll() is None
    assert {role: rig.leader(role) for role in ROLES} == leaders, "somebody died"
    make_room(rig.data)
    assert rig.wait_until_back(timezone.now()) <= BACK_WITHIN
    measured_once(ended(ask()))
    with sqlite3.connect(rig.data / "assay.sqlite3") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()

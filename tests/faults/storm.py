"""A storm over the real `manage.py up`: many runs, faults at random, the figures at its end.

    python -m tests.faults.storm --runs 60 --seed 1 [--postgres]

Processes are killed with -9, idle and busy: the supervisor, Redis, the web server, each worker and
the children of its pool, the beat, benchmarks and their reapers; or they stand still for seconds.
Messages are lost, doubled and forged, and readers cancel. Afterwards every run must have ended,
with one result where it succeeded, nothing measured twice, no process left over, no device time
charged for a failure of ours, and the site must be ready. Meanwhile --readers save papers and write
notes, of which nothing acknowledged may be lost. With --postgres on a PostgreSQL of its own, else
on SQLite.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bootstrap
from assay_common.redis_broker import socket_path
from tests import machine
from tests.faults.clocks import step
from tests.faults.small_disk import fill, has_no_room, make_room, small_disk
from tests.faults.storm_readers import Reader, lost, reading
from tests.faults.up_rig import ROLES, UpRig
from tests.runs.rig import FIXTURE
from tests.servers import stores

FAULTS_A_RUN = 2 / 3
ALL_END_WITHIN = 600.0  # seconds after the last fault
QUIET_WITHIN = 30.0  # a job that came twice may still be stopped; what is left sleeps for 60


@dataclass
class Storm:
    """The runs asked for, the faults injected, and what chance decides."""

    rig: UpRig
    chance: random.Random
    runs: int
    faults: Counter[str] = field(default_factory=Counter)
    asked: list[Any] = field(default_factory=list)
    later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)

    def blow(self) -> None:
        """Ask for every run; two faults for every three that end, soon after; then let it clear.

        Counted by runs and not by the clock, so a slow machine sees the same weather.
        """
        from webapp.runs.models import ENDED, OPEN, Run

        seen = Run.objects.filter(state__in=ENDED).count()  # what `up` imported
        while len(self.asked) < self.runs or Run.objects.filter(state__in=OPEN).count() > 1:
            self._mend()
            waiting = Run.objects.filter(state__in=OPEN).count()
            if len(self.asked) < self.runs and waiting < 3:
                self._ask()
            ended = Run.objects.filter(state__in=ENDED).count()
            for _ in range(ended - seen):
                if self.chance.random() < FAULTS_A_RUN:
                    self._in(self.chance.uniform(0, 3), self._inject)
            seen = ended
            time.sleep(0.1)
        self._mend(everything=True)

    def calm(self) -> float:
        """Wait until every run has ended; the seconds it took."""
        from webapp.runs.models import OPEN, Run

        started = time.monotonic()
        while Run.objects.filter(state__in=OPEN).exists():
            if time.monotonic() - started > ALL_END_WITHIN:
                break
            time.sleep(0.2)
        return time.monotonic() - started

    def quiet(self) -> None:
        """Wait until nothing measures any more: what was sent twice is stopped when it is heard."""
        deadline = time.monotonic() + QUIET_WITHIN
        still = 0
        while still < 3 and time.monotonic() < deadline:
            still = 0 if self.rig.benchmarks() else still + 1
            time.sleep(1)

    def _ask(self) -> None:
        from django.contrib.auth.models import User
        from django.db import OperationalError

        from tests.runs.asking import request
        from webapp.runs import submit

        how = self.chance.choice(["raises", "exits_silently", "forks_grandchildren", "crashes"])
        asked = (
            request("misbehave", params={"how": how})
            if self.chance.random() < 0.2
            else request(params={"seconds": round(self.chance.uniform(0, 2), 2)})
        )
        try:
            run = submit.submit(User.objects.create_user(uuid.uuid4().hex), asked)
        except OperationalError:
            return  # the disk is full: nothing was asked for
        self.asked.append(run.pk)
        if self.chance.random() < 0.1:
            self._in(self.chance.uniform(0, 4), lambda: self._cancel(run.pk))

    def _cancel(self, key: object) -> None:
        from django.db import OperationalError

        from webapp.runs import submit
        from webapp.runs.models import Run

        with suppress(OperationalError):  # the disk is full
            submit.cancel(Run.objects.get(pk=key))
            self.faults["cancel"] += 1

    def _in(self, seconds: float, act: Callable[[], object]) -> None:
        self.later.append((time.monotonic() + seconds, act))

    def _mend(self, *, everything: bool = False) -> None:
        """Start again what a fault stopped, when its time has come."""
        while due := [entry for entry in self.later if everything or entry[0] <= time.monotonic()]:
            for entry in due:
                self.later.remove(entry)
                entry[1]()

    # --- The faults --------------------------------------------------------------------------

    def _inject(self) -> None:
        faults: list[tuple[Callable[[], bool], int]] = [
            (self.kill_process, 4),
            (self.kill_supervisor, 1),
            (self.kill_benchmark, 2),
            (self.stop_process, 1),
            (self.fill_disk, 1),
            (self.step_clock, 1),
            (self.lose_message, 1),
            (self.double_message, 1),
            (self.forge_message, 1),
        ]
        (fault,) = self.chance.choices([act for act, _ in faults], [weight for _, weight in faults])
        if fault():
            self.faults[fault.__name__.replace("_", " ")] += 1

    def kill_process(self) -> bool:
        """A process of any kind, main or child."""
        role = self.chance.choice(sorted(ROLES))
        killed = self._signal(self.rig.pids(role), signal.SIGKILL)
        self.faults[f"kill {role}"] += killed is not None
        return killed is not None

    def kill_supervisor(self) -> bool:
        if self.rig.up.poll() is not None or has_no_room(self.rig.data):
            return False  # whoever starts it again sees to the disk first
        self.rig.up.kill()
        self.rig.up.wait()
        self._in(self.chance.uniform(0, 2), self.rig.start_up)
        return True

    def kill_benchmark(self) -> bool:
        """The subprocess or its reaper."""
        return self._signal(list(self.rig.benchmarks()), signal.SIGKILL) is not None

    def stop_process(self) -> bool:
        """It neither ends nor goes on, for longer than a lease."""
        role = self.chance.choice(sorted(set(ROLES) - {"redis"}))
        stopped = self._signal(self.rig.pids(role), signal.SIGSTOP)
        if stopped is not None:
            self._in(self.chance.uniform(1, 6), lambda: self._signal([stopped], signal.SIGCONT))
        return stopped is not None

    def fill_disk(self) -> bool:
        """No room for anything, for some seconds."""
        if not self.rig.data.is_mount() or self.rig.up.poll() is not None:
            return False
        fill(self.rig.data)
        self._in(self.chance.uniform(0, 4), lambda: make_room(self.rig.data))
        return True

    def step_clock(self) -> bool:
        """The site's clock goes wrong by an hour, and is set right after some seconds."""
        if not self.rig.fake:
            return False
        step(self.rig.clock, self.chance.choice(["+1h", "-1h"]))
        self._in(self.chance.uniform(1, 10), lambda: step(self.rig.clock, "+0"))
        return True

    def _signal(self, pids: list[int], number: signal.Signals) -> int | None:
        """Signal one of the processes; the one, if there was any."""
        if not pids:
            return None
        pid = self.chance.choice(pids)
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            return pid
        return None

    def forge_message(self) -> bool:
        from webapp.core import tasks
        from webapp.runs import broker
        from webapp.runs.models import WITH_WORKER, Run

        run = Run.objects.filter(state__in=WITH_WORKER).first()
        if run is None:
            return False
        forged = {
            "v": 1, "run": str(run.pk), "token": run.token, "worker": "local", "seq": 0,
            "kind": "result", "body": {"duration": 0.0, "checks": 1, "series": []}, "sig": "0" * 64,
        }  # fmt: skip
        return tasks.send("runs.record", [forged], broker.EVENTS, lost="no forged message")

    def lose_message(self) -> bool:
        return self._put_again(0)

    def double_message(self) -> bool:
        return self._put_again(2)

    def _put_again(self, times: int) -> bool:
        """Take a message that waits, and put it back so often."""
        import redis

        client = redis.Redis(unix_socket_path=str(socket_path(self.rig.data)), socket_timeout=2)
        with suppress(redis.RedisError):
            for queue in self.chance.sample(["events", "bench-cpu", "quick"], 3):
                message = client.rpop(queue)
                for _ in range(times if message else 0):
                    client.lpush(queue, message)
                if message:
                    return True
        return False


def figures(storm: Storm, calm: float, took: float) -> dict[str, Any]:
    """Figures after the storm: those that must hold, and those for information."""
    from webapp.runs.models import ENDED, OPEN, Run, RunFailure, State

    runs = list(Run.objects.filter(pk__in=storm.asked))  # not what `up` imported
    succeeded = [run for run in runs if run.state == State.SUCCEEDED]
    ours = [run for run in runs if run.failure and RunFailure(run.failure).ours]
    attempts = Counter(run.attempt for run in runs)
    return {
        "runs asked for": storm.runs,
        "runs lost": storm.runs - len(runs),
        "runs not ended": sum(run.state in OPEN for run in runs),
        "ended": {state: sum(run.state == state for run in runs) for state in ENDED},
        "failures": dict(Counter(run.failure for run in runs if run.failure)),
        "attempts": {str(number): attempts[number] for number in sorted(attempts)},
        "succeeded without exactly one result": sum(
            run.events.filter(token=run.token, kind="result").count() != 1 for run in succeeded
        ),
        "results in other states": sum(
            run.result is not None for run in runs if run.state != State.SUCCEEDED
        ),
        "tables that are not whole": sum(not _whole(run) for run in succeeded),
        "device seconds charged for failures of ours": sum(run.charged_seconds for run in ours),
        "acknowledged": sum(reader.acknowledged for reader in storm.readers),
        "requests broken off": sum(len(reader.broken) for reader in storm.readers),
        "why": dict(Counter(why for reader in storm.readers for why in reader.broken.values())),
        "marks and notes lost": len(gone := lost(storm.readers)),
        "which": gone,
        "processes left over": len(left := storm.rig.benchmarks()),
        "their commands": list(left.values()),
        "faults": dict(storm.faults),
        "seconds": round(took, 1),
        "seconds until the last run ended": round(calm, 1),
    }


def _whole(run: Any) -> bool:
    """One series of one attempt, each point once, with its check and where it was measured."""
    points = [len(series.data["points"]) for series in run.series.all()]
    beside = run.checks.count(), run.environment is not None
    return (points, *beside) == ([5 if run.benchmark == "sleep" else 1], 1, True)


ZERO = (
    "runs lost",
    "runs not ended",
    "succeeded without exactly one result",
    "results in other states",
    "tables that are not whole",
    "device seconds charged for failures of ours",
    "marks and notes lost",
    "processes left over",
)


def run(runs: int, seed: int, database: str = "", readers: int = 2) -> dict[str, Any]:
    """One storm on an `up` of its own; its figures."""
    folder = Path(tempfile.mkdtemp(prefix="assay-storm-"))
    rig = UpRig(folder, database)
    storm = Storm(rig, random.Random(seed), runs)
    started = time.monotonic()
    try:
        with small_disk(folder), stopping(rig):
            rig.start_up()
            with rig.connected():
                rig.wait_until_ready()
                address = f"http://127.0.0.1:{rig.port}"
                with reading(address, readers, seed) as storm.readers:
                    storm.blow()
                    calm = storm.calm()
                storm.quiet()
                rig.wait_until_ready()
                return figures(storm, calm, time.monotonic() - started)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def stopping(rig: UpRig) -> Iterator[None]:
    """End everything before the disk goes."""
    try:
        yield
    finally:
        rig.stop()


def main() -> int:
    """Run a storm and print its figures; 1 if one that must be zero is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--postgres", action="store_true", help="not SQLite but PostgreSQL")
    options = parser.parse_args()
    if any(bootstrap.missing(group, sys.path) for group in ("web", "ml", "torch")):
        sys.exit("The methods' requirements are missing: python3 manage.py methods list")

    os.environ.setdefault("ASSAY_DATA", tempfile.mkdtemp(prefix="assay-storm-site-"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
    os.environ["ASSAY_METHODS_PATH"] = str(FIXTURE)
    import django

    django.setup()
    with ExitStack() as stack:
        database = ""
        if options.postgres:
            initdb = machine.POSTGRESQL.find() or sys.exit(machine.POSTGRESQL.why_not)
            database = stack.enter_context(stores.postgresql(Path(initdb).parent))
        found = run(options.runs, options.seed, database, options.readers)
    print(json.dumps(found, indent=2))
    return int(any(found[name] for name in ZERO))


if __name__ == "__main__":
    sys.exit(main())

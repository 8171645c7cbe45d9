"""A storm over real processes: many runs, faults at random, and the figures at its end.

    python -m tests.faults.storm --runs 100 --seed 1

Two workers measure while processes are killed with -9 or stopped, messages are lost, doubled,
delayed and forged, Redis is killed and started again, and readers cancel. Afterwards every run
must have ended, with one result where it succeeded, nothing measured twice, no process left over
and no device time charged for a failure of ours.
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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runs.rig import FIXTURE, Rig

WORKERS = ("one", "two")
FAULTS_A_RUN = 2 / 3
ALL_END_WITHIN = 600.0  # seconds after the last fault
QUIET_WITHIN = 30.0  # a job that came twice may still be stopped; what is left sleeps for 60


@dataclass
class Storm:
    """The runs asked for, the faults injected, and what chance decides."""

    rig: Rig
    chance: random.Random
    runs: int
    faults: Counter[str] = field(default_factory=Counter)
    asked: list[Any] = field(default_factory=list)
    later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def blow(self) -> None:
        """Ask for every run; two faults for every three that end, soon after; then let it clear.

        Counted by runs and not by the clock, so a slow machine sees the same weather.
        """
        from webapp.runs.models import ENDED, OPEN, Run

        seen = 0
        while len(self.asked) < self.runs or Run.objects.filter(state__in=OPEN).count() > 4:
            self._mend()
            waiting = Run.objects.filter(state__in=OPEN).count()
            if len(self.asked) < self.runs and waiting < 8:
                self._ask()
            ended = Run.objects.filter(state__in=ENDED).count()
            for _ in range(ended - seen):
                if self.chance.random() < FAULTS_A_RUN:
                    self._in(self.chance.uniform(0, 5), self._inject)
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

        from webapp.runs import submit

        reader = User.objects.create_user(uuid.uuid4().hex)
        how = self.chance.choice(["raises", "exits_silently", "forks_grandchildren", "crashes"])
        asked = (
            submit.Request("trial", "misbehave", settings={"how": how})
            if self.chance.random() < 0.2
            else submit.Request(
                "trial", "sleep", settings={"seconds": round(self.chance.uniform(0, 2), 2)}
            )
        )
        run = submit.submit(reader, asked)
        self.asked.append(run.pk)
        if self.chance.random() < 0.1:
            self._in(self.chance.uniform(0, 4), lambda: self._cancel(run.pk))

    def _cancel(self, key: object) -> None:
        from webapp.runs import submit
        from webapp.runs.models import Run

        self.faults["cancel"] += 1
        submit.cancel(Run.objects.get(pk=key))

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
        faults: list[Callable[[], object]] = [
            self.kill_worker,
            self.kill_child,
            self.kill_benchmark,
            self.kill_recorder,
            self.stop_recorder,
            self.kill_beat,
            self.lose_message,
            self.double_message,
            self.forge_message,
            self.kill_redis,
        ]
        fault = self.chance.choice(faults)
        if fault():
            self.faults[fault.__name__.replace("_", " ")] += 1

    def kill_worker(self) -> bool:
        name = self.chance.choice(WORKERS)
        if name not in self.rig.running:
            return False
        self.rig.kill(name)
        self._in(self.chance.uniform(0, 3), lambda: self.rig.bench(name))
        return True

    def kill_child(self) -> bool:
        from tests.faults.test_kills import children_of

        name = self.chance.choice(WORKERS)
        children = children_of(self.rig.running[name].pid) if name in self.rig.running else []
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        return bool(children)

    def kill_benchmark(self) -> bool:
        """The subprocess or its reaper."""
        processes = list(self.rig.benchmarks())
        if not processes:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.chance.choice(processes), signal.SIGKILL)
        return True

    def kill_recorder(self) -> bool:
        if "recorder" not in self.rig.running:
            return False
        self.rig.kill("recorder")
        self._in(self.chance.uniform(0, 6), self.rig.recorder)
        return True

    def stop_recorder(self) -> bool:
        """A pause of the web side: it hears nothing for longer than a lease."""
        if "recorder" not in self.rig.running:
            return False
        process = self.rig.running["recorder"]
        process.send_signal(signal.SIGSTOP)
        self._in(self.chance.uniform(1, 6), lambda: process.send_signal(signal.SIGCONT))
        return True

    def kill_beat(self) -> bool:
        if "beat" not in self.rig.running:
            return False
        self.rig.kill("beat")
        self._in(self.chance.uniform(0, 4), self.rig.beat)
        return True

    def kill_redis(self) -> bool:
        redis = self.rig.redis
        if redis.process is None or redis.process.poll() is not None:
            return False
        redis.kill()
        self._in(self.chance.uniform(0, 3), redis.start)
        return True

    def lose_message(self) -> bool:
        return self._touch(keep=0)

    def double_message(self) -> bool:
        return self._touch(keep=2)

    def forge_message(self) -> bool:
        from webapp.runs import broker
        from webapp.runs.models import WITH_WORKER, Run

        run = Run.objects.filter(state__in=WITH_WORKER).first()
        if run is None:
            return False
        forged = {
            "v": 1, "run": str(run.pk), "token": run.token, "worker": "one", "seq": 0,
            "kind": "result", "body": {"duration": 0.0, "checks": 1, "series": []}, "sig": "0" * 64,
        }  # fmt: skip
        with suppress(broker.BrokerDownError):
            broker._send("runs.record", "events", [forged])
            return True
        return False

    def _touch(self, keep: int) -> bool:
        """Lose or double a message that waits."""
        if self.rig.redis is None:
            waiting = sorted((self.rig.data / "broker" / "messages").glob("[0-9]*.msg"))
            if not waiting:
                return False
            message = self.chance.choice(waiting)
            with suppress(FileNotFoundError):
                if keep:
                    number = f"{time.monotonic_ns():020d}"
                    shutil.copy(message, message.with_name(f"{number}{message.name[20:]}"))
                else:
                    message.unlink()
                return True
            return False
        return self._touch_redis(keep)

    def _touch_redis(self, keep: int) -> bool:
        import redis

        client = redis.Redis.from_url(self.rig.broker, socket_timeout=2)
        with suppress(redis.RedisError):
            for queue in self.chance.sample(["events", "bench-cpu"], 2):
                message = client.rpop(queue)
                for _ in range(keep if message else 0):
                    client.lpush(queue, message)
                if message:
                    return True
        return False


def figures(storm: Storm, calm: float, took: float) -> dict[str, Any]:
    """What the storm left: the numbers that must hold, and those that are good to know."""
    from webapp.runs.models import ENDED, OPEN, Failure, Run, State

    runs = list(Run.objects.all())
    succeeded = [run for run in runs if run.state == State.SUCCEEDED]
    ours = [run for run in runs if run.failure and Failure(run.failure).ours]
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
    "processes left over",
)


def run(runs: int, seed: int, database: str = "") -> dict[str, Any]:
    """One storm on a site of its own; its figures."""
    folder = Path(tempfile.mkdtemp(prefix="assay-storm-"))
    rig = Rig(folder, database)
    storm = Storm(rig, random.Random(seed), runs)
    started = time.monotonic()
    with rig.connected():
        try:
            rig.migrate()
            rig.recorder()
            rig.beat()
            for name in WORKERS:
                rig.bench(name)
            storm.blow()
            calm = storm.calm()
            storm.quiet()
            return figures(storm, calm, time.monotonic() - started)
        finally:
            rig.stop()
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run a storm and print its figures; 1 if one that must be zero is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", default="", help="a DATABASE_URL; SQLite in a file if unset")
    options = parser.parse_args()

    os.environ.setdefault("ASSAY_DATA", tempfile.mkdtemp(prefix="assay-storm-site-"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
    os.environ["ASSAY_METHODS_PATH"] = str(FIXTURE)
    import django

    django.setup()
    found = run(options.runs, options.seed, options.database)
    print(json.dumps(found, indent=2))
    return int(any(found[name] for name in ZERO))


if __name__ == "__main__":
    sys.exit(main())

"""A site's database, its workers and their broker, as real processes that tests may kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from assay_common.redis_broker import socket_path
from tests import databases, forking
from tests.processes import PATIENCE, ROOT, processes_of, wait_for
from tests.runs import forks
from workers.up import redis

LEASE = 3  # seconds: faults are noticed ten times sooner than in the field
FIXTURE = ROOT / "tests" / "methods_fixture"


@dataclass
class Rig:
    """Processes on one data directory, a Redis of their own among them.

    `database` is a URL, empty for SQLite in a file.
    """

    data: Path
    database: str = ""
    lease: int = LEASE
    running: dict[str, ForkServerProcess] = field(default_factory=dict)
    _former: dict[str, str] = field(default_factory=dict)  # a worker's boot before the last start

    def __post_init__(self) -> None:
        self.redis = Redis(self.data)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every process of the site."""
        return {
            **os.environ,
            "ASSAY_ENCODER": "off",  # to be unpacked it would fill a small disk
            "ASSAY_DATA": str(self.data),
            "ASSAY_SECRET_KEY": "a secret of the tests, long enough to sign with",
            "ASSAY_LEASE": str(self.lease),
            "ASSAY_METHODS_PATH": str(FIXTURE),
            "ASSAY_RUN_MINUTES": "1440",
            "CELERY_BROKER_URL": "",
            "DATABASE_URL": self.database,
            "PYTHONUNBUFFERED": "1",
        }

    def migrate(self) -> None:
        """Make the database, and start Redis."""
        self.redis.start()
        if not self.copy_database():
            command = forking.manage("migrate", "--verbosity", "0")
            subprocess.run(command, cwd=ROOT, env=self.environment, check=True)

    def copy_database(self) -> bool:
        """Begin with the empty database of this session of tests, if there is one."""
        if self.database or databases.SHARED not in os.environ:
            return False
        databases.copy_to(self.data / "assay.sqlite3")
        return True

    def start(
        self, name: str, *arguments: str, anew: bool = False, **extra: str
    ) -> ForkServerProcess:
        """Start `celery …` under a name; its output goes to a log beside the data."""
        self.running[name] = forks.start(
            ("--quiet", *arguments, "--loglevel", "INFO"),
            {**self.environment, **extra},
            self.data / f"{name}.log",
            anew=anew,
        )
        return self.running[name]

    def recorder(self, name: str = "recorder") -> ForkServerProcess:
        """The site's worker that records, dispatches and sweeps."""
        node = ("--hostname", f"{name}@test", "-Q", "events")
        return self.start(name, "-A", "workers.site.app", "worker", *node)

    def beat(self) -> ForkServerProcess:
        """The clock."""
        return self.start("beat", "-A", "workers.site.app", "beat")

    def bench(
        self, name: str = "one", key: str = "", *, anew: bool = False, **extra: str
    ) -> ForkServerProcess:
        """A worker that measures."""
        from webapp.runs.models import Worker

        mine = {"ASSAY_WORKER_NAME": name, "ASSAY_WORKER_KEY": key or self.key(name)}
        self._former[name] = Worker.objects.get(name=name).boot
        mine |= {"ASSAY_WORKER_MEMORY": "1500"}
        worker = ("-A", "methods.worker.app", "worker", "-Q", "bench-cpu")
        return self.start(name, *worker, anew=anew, **{**mine, **extra})

    def mend(self) -> None:
        """Start what is down, and wait until the worker that runs now has been heard of."""
        if self.redis.process is None or self.redis.process.poll() is not None:
            self.redis.start()
        from django.utils import timezone

        from webapp.runs.models import Worker

        for name, start in (("recorder", self.recorder), ("beat", self.beat), ("one", self.bench)):
            if name not in self.running or not self.running[name].is_alive():
                start()
            self.send(name, signal.SIGCONT)
        # What a dead one said last may be heard only now: it does not count.
        heard = Worker.objects.filter(name="one", last_seen__gt=timezone.now())
        wait_for(heard.exclude(boot=self._former["one"]).exists, "a heartbeat")

    def key(self, name: str) -> str:
        """The key of a worker."""
        from webapp.runs import keys

        return keys.issue(name)

    def send(self, name: str, number: int) -> None:
        """Signal a process by its name."""
        os.kill(self.running[name].pid, number)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Signal a process by its name and bury it."""
        self.send(name, number)
        process = self.running.pop(name)
        process.join(PATIENCE)
        assert not process.is_alive(), f"{name} outlives its signal"

    def log(self, name: str) -> str:
        """The log of a process."""
        return (self.data / f"{name}.log").read_text(errors="replace")

    def benchmarks(self) -> dict[int, str]:
        """Processes of benchmarks and their reapers, wherever they have moved to: pid, command."""
        mark = f"{self.data}/bench/".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                command = (folder / "cmdline").read_bytes()
                if state != "Z" and mark in command + (folder / "environ").read_bytes():
                    found[int(folder.name)] = command.replace(b"\0", b" ").decode()
        return found

    def stop(self) -> None:
        """End everything, politely first."""
        for process in self.running.values():
            process.terminate()
        deadline = time.monotonic() + 10
        for process in self.running.values():
            process.join(max(0.1, deadline - time.monotonic()))
            process.kill()
            process.join()
        self.running.clear()
        self.redis.kill()
        for pid in [*processes_of(self.data), *self.benchmarks()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Let this process's Django speak to the rig's database and broker meanwhile."""
        with _settings(self.environment):
            yield


@dataclass
class Redis:
    """The private Redis of a data directory, as `up` starts it; it may be killed and come back."""

    data: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.data / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(redis.command(self.data), stdout=log, stderr=log)
        wait_for(self._answers, "Redis")

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def _answers(self) -> bool:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.connect(str(socket_path(self.data)))
            line.sendall(b"PING\r\n")
            return line.recv(100).startswith(b"+PONG")
        return False


@contextmanager
def standing(rig: Rig) -> Iterator[Rig]:
    """A rig with Redis and an empty database, to which this process's Django speaks meanwhile."""
    with rig.connected():
        try:
            rig.migrate()
            yield rig
        finally:
            rig.stop()


@contextmanager
def _settings(environment: Mapping[str, str]) -> Iterator[None]:
    from django.conf import settings
    from django.db import connections
    from django.test import override_settings

    from assay_common import redis_broker
    from webapp import env
    from webapp.core import tasks

    data = Path(environment["ASSAY_DATA"])
    database = environment["DATABASE_URL"] or f"sqlite:///{data / 'assay.sqlite3'}"
    former = connections.settings["default"]
    kept = connections["default"]
    connections.settings["default"] = {**former, "OPTIONS": {}, **env.database_from(database)}
    connections["default"] = connections.create_connection("default")
    tasks.app.cache_clear()
    changed = override_settings(
        SECRET_KEY=environment["ASSAY_SECRET_KEY"],
        CELERY_BROKER_URL=redis_broker.url(data),
        RUN_MINUTES_A_DAY=int(environment["ASSAY_RUN_MINUTES"]),
    )
    assert settings.configured
    try:
        with changed:
            yield
    finally:
        connections["default"].close()
        connections.settings["default"] = former
        connections["default"] = kept
        tasks.app.cache_clear()

"""The real `manage.py up` on a data directory of its own, whose processes tests kill."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tests import machine
from tests.faults.clocks import stepping
from tests.processes import ROOT, free_port, idle_seconds_until, processes_of, wait_for
from tests.runs.rig import Rig

# How to tell each process that the supervisor keeps; a pool's children share its name.
ROLES = {
    "redis": "redis-server",
    "web": "assay-web",
    "site": "assay-site",
    "events": "assay-events",
    "bulk": "assay-bulk",
    "summaries": "assay-summaries",
    "bench": "methods.worker bench-cpu",
}

SMALL_QUEUES = ("quick", "arxiv", "mail")  # threads of one process
QUEUES = (*SMALL_QUEUES, "events", "bulk", "summaries")


class UpRig(Rig):
    """`up` with the trial method, a short lease, no arXiv and a model that nobody reaches."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.port = free_port()
        self.clock = self.data.with_suffix(".clock")  # beside the disk, which may be full
        self.fake = stepping(self.clock) if machine.FAKETIME.find() else {}

    @property
    def environment(self) -> dict[str, str]:
        nowhere = "http://127.0.0.1:9"
        return super().environment | {
            "ASSAY_ARXIV_RSS_URL": nowhere,
            "ASSAY_ARXIV_API_URL": nowhere,
            "ASSAY_SUMMARY_MODEL": "a-model",
            "OPENAI_BASE_URL": nowhere,
            "WEB_CONCURRENCY": "1",
        } | self.fake  # fmt: skip

    def start_up(self) -> None:
        """Start the supervisor, which starts everything."""
        if not (self.data / "log").exists():  # the first time
            self.copy_database()
        with (self.data / "up.out").open("ab") as output:
            self.up = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", str(self.port)],
                cwd=ROOT,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def pids(self, role: str) -> list[int]:
        """The processes of a role: the main one, and its children."""
        return [pid for pid, command in processes_of(self.data).items() if ROLES[role] in command]

    def leader(self, role: str) -> int:
        """The main process of a role."""
        return next(pid for pid in self.pids(role) if os.getpgid(pid) == pid)

    def checks(self) -> dict[str, Any]:
        """The checks of /readyz by name; empty while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz") as got:
                body = got.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        except OSError:
            return {}
        return {check["name"]: check for check in json.loads(body)["checks"]}

    def wait_until_ready(self) -> None:
        """Wait until every check holds and the bench worker is heard of."""

        def ready() -> bool:
            checks = self.checks()
            heard = checks and checks["queue bench-cpu"]["detail"] == "1 workers alive"
            return bool(heard and all(check["ok"] for check in checks.values()))

        wait_for(ready, "an installation that is ready")

    def send_tokens(self, queue: str, number: int = 1) -> None:
        """Ask the worker of a queue for a sign of life, as the beat does; so often."""
        from webapp.core import tasks

        for _ in range(number):
            tasks.send("health.token", [], queue, lost="no token")

    def wait_until_back(self, since: datetime, *, lost: str = "", beat: bool = True) -> float:
        """Wait until everything has worked since then: pages, each queue, beat and bench worker.

        `lost` is the bench worker's boot number that must have been replaced, if any. The `beat`
        says something every ten seconds alone. Returns for how many of the seconds no process
        could run: that is what timers, leases and locks cost, however busy the machine is.
        """
        from webapp.operate.models import Heartbeat
        from webapp.runs.models import Worker

        wanted = {*QUEUES, "beat"} if beat else set(QUEUES)

        def asked() -> Iterable[int]:
            for queue in QUEUES:
                self.send_tokens(queue)
            return processes_of(self.data)

        def back() -> bool:
            heard = Heartbeat.objects.filter(at__gt=since)
            bench = Worker.objects.filter(name="local", last_seen__gt=since).exclude(boot=lost)
            names = set(heard.values_list("name", flat=True))
            return wanted <= names and bench.exists() and bool(self.checks())

        return idle_seconds_until(back, "a sign of life of every process", asked)

    def last_lines(self) -> str:
        """The ends of all logs: who waited for what."""
        logs = [self.data / "up.out", *sorted((self.data / "log").glob("*.log"))]
        return "\n".join(f"{path.name}:\n{path.read_text()[-1500:]}" for path in logs)

    def stop(self) -> None:
        """Kill the supervisor, and what does not end with it."""
        self.up.kill()
        self.up.wait()
        super().stop()
        shutil.rmtree(self.clock, ignore_errors=True)

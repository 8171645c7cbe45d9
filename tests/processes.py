"""Starting Assay as a person does, and looking at what runs on the machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 300.0  # a machine that runs the whole suite is slow
# What never comes is told from what a busy machine holds up: no wait is given up before this. What
# tests leave to itself, to see that it is ended, sleeps for longer.
PATIENCE = 45.0


def wait_for(look: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true value of `look` within `seconds` or `PATIENCE`, or an AssertionError."""
    begun = time.monotonic()
    while not (found := look()):
        waited = time.monotonic() - begun
        assert waited < max(seconds, PATIENCE), f"waited {waited:.0f} s for {what}"
        time.sleep(0.1)
    return found


def waited_for(
    look: Callable[[], Any], seconds: float, what: str, pids: Callable[[], Iterable[int]]
) -> float:
    """Wait like `wait_for`; for how many seconds of it none of the processes could run.

    That is what timers, leases and locks cost, however busy the machine is. Which processes there
    are is asked for once a second.
    """
    asked, known = float("-inf"), list[int]()
    looked, idle_for = time.monotonic(), 0.0

    def came() -> bool:
        nonlocal asked, known, looked, idle_for
        idle, now = none_can_run(known), time.monotonic()
        idle_for += now - looked if idle else 0.0
        looked = now
        if now - asked > 1:
            asked, known = now, list(pids())
        return bool(look())

    wait_for(came, seconds, what)
    return idle_for


def forked(act: Callable[[], object]) -> ForkProcess:
    """Start `act` in a fork of this process, over a connection of its own to the same database."""
    from django.db import connections

    ours = connections["default"]
    connections.close_all()  # a connection belongs to one process

    def run() -> None:
        # While Playwright's loop runs here, Django keeps connections where a fork does not look.
        connections["default"] = type(ours)(ours.settings_dict, "default")
        act()

    process = get_context("fork").Process(target=run)
    process.start()
    return process


def processes_of(data: Path) -> dict[int, str]:
    """Running processes whose ASSAY_DATA is `data`, or that stand in it: pid to name and line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes()
            # Redis shows its title where its environment was.
            inside = (folder / "cwd").readlink().is_relative_to(data)
            if not inside and f"\0ASSAY_DATA={data}\0".encode() not in b"\0" + environment + b"\0":
                continue
            if (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                command = (folder / "cmdline").read_text().replace("\0", " ").strip()
                found[int(folder.name)] = f"{(folder / 'comm').read_text().strip()}: {command}"
    return found


def none_can_run(pids: Iterable[int]) -> bool:
    """Return whether every thread of these processes waits for neither processor nor disk."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
            with suppress(OSError):
                if thread.read_text().rpartition(")")[2].split()[0] in {"R", "D"}:
                    return False
    return True


@dataclass
class House:
    """A running `manage.py up`."""

    process: subprocess.Popen[str]
    data: Path
    lines: list[str] = field(default_factory=list)

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def said(self, pattern: str, seconds: float = START_SECONDS) -> re.Match[str]:
        """The first match of `pattern` in what it says."""
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.output)):
            assert self.process.poll() is None, f"it ended:\n{self.output}"
            assert time.monotonic() < deadline, f"it never said {pattern}:\n{self.output}"
            time.sleep(0.1)
        return match

    @property
    def address(self) -> str:
        return self.said(r"Assay [\d.]+ is at +(\S+)")[1]

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page."""
        try:
            with urllib.request.urlopen(self.address + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def children(self, word: str) -> list[int]:
        """Pids of the processes in it with `word` in their command line."""
        return [pid for pid, command in processes_of(self.data).items() if word in command]

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Send a signal and wait for the end; the seconds it took."""
        started = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(START_SECONDS)
        return time.monotonic() - started


@contextmanager
def up(
    data: Path,
    *arguments: str,
    ml: bool = False,
    root: Path = ROOT,
    python: str = sys.executable,
    **settings: str,
) -> Iterator[House]:
    """`manage.py up` on a data directory, at a port of the system's choice; ended afterwards.

    An empty setting is as none.
    """
    # No arXiv: a port nobody listens on.
    environment = {"ASSAY_ARXIV_RSS_URL": "http://127.0.0.1:9", "ASSAY_DATA": str(data)}
    environment |= {"ASSAY_ARXIV_API_URL": "http://127.0.0.1:9", "WEB_CONCURRENCY": "1"}
    environment |= {"ASSAY_STATIC": ""}  # it collects its own
    environment = {**os.environ, **environment, **settings}
    if "--port" not in arguments:
        arguments = ("--port", "0", *arguments)
    process = subprocess.Popen(
        [python, "manage.py", "up", *([] if ml else ["--no-ml"]), *arguments],
        cwd=root,
        env={name: value for name, value in environment.items() if value},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    house = House(process, data)

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            house.lines.append(line.rstrip())

    listener = Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield house
    finally:
        process.kill()
        process.wait()
        for pid in processes_of(data):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        listener.join(5)

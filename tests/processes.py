"""Start Assay as a user does, and inspect its processes."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
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
# Seconds: the one timeout of all tests, since a busy machine may delay anything. pytest's own of
# 900 s comes later, and would not say what was waited for.
PATIENCE = 600.0
# Processes that a test leaves behind, to see them killed, sleep for longer.
FOREVER = 3600.0
_claims: list[socket.socket] = []


def wait_for(condition: Callable[[], Any], description: str) -> Any:
    """Return the first true value of `condition`; fail after PATIENCE."""
    started = time.monotonic()
    while not (value := condition()):
        assert time.monotonic() - started < PATIENCE, f"waited {PATIENCE:.0f} s for {description}"
        time.sleep(0.05)
    return value


def idle_seconds_until(
    condition: Callable[[], Any], description: str, pids: Callable[[], Iterable[int]]
) -> float:
    """Wait like `wait_for`; return the seconds of it in which none of the processes could run.

    Timers, leases and locks take these seconds, however busy the machine is. The processes are
    listed once a second.
    """
    listed_at, listed = float("-inf"), list[int]()
    previous, idle_for = time.monotonic(), 0.0

    def holds() -> bool:
        nonlocal listed_at, listed, previous, idle_for
        idle, now = all_wait(listed), time.monotonic()
        idle_for += now - previous if idle else 0.0
        previous = now
        if now - listed_at > 1:
            listed_at, listed = now, list(pids())
        return bool(condition())

    wait_for(holds, description)
    return idle_for


def free_port() -> int:
    """Return a port that nobody listens on, and that no other process of the tests is given.

    It lies below those that the kernel hands out, so that no connection is on it when a server that
    starts later, or once more, wants it. The claim of a name in the kernel ends with this process.
    """
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        claim, probe = socket.socket(socket.AF_UNIX), socket.socket()
        with claim, probe, suppress(OSError):
            claim.bind(f"\0assay-test-port-{port}")
            probe.bind(("127.0.0.1", port))
            _claims.append(claim.dup())
            return port


def forked(act: Callable[[], object]) -> ForkProcess:
    """Start `act` in a fork of this process, with its own connection to the same database."""
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
    """Return the processes with this ASSAY_DATA or working directory: pid to name and command."""
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


def all_wait(pids: Iterable[int]) -> bool:
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

    def said(self, pattern: str) -> re.Match[str]:
        """Wait for output that matches `pattern`; return the first match."""
        deadline = time.monotonic() + PATIENCE
        while not (match := re.search(pattern, self.output)):
            assert self.process.poll() is None, f"it ended:\n{self.output}"
            assert time.monotonic() < deadline, f"no output matched {pattern}:\n{self.output}"
            time.sleep(0.1)
        return match

    @property
    def address(self) -> str:
        return self.said(r"Assay [\d.]+ is at +(\S+)")[1]

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and body of a page."""
        try:
            with urllib.request.urlopen(self.address + path) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def children(self, word: str) -> list[int]:
        """Return the pids of its processes with `word` in their command line."""
        return [pid for pid, command in processes_of(self.data).items() if word in command]

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Send a signal and wait for the end; return the seconds it took."""
        started = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
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
    """Run `manage.py up` on a data directory, at a free port; kill it afterwards.

    An empty setting counts as unset.
    """
    # No arXiv: a port nobody listens on.
    environment = {"ASSAY_ARXIV_RSS_URL": "http://127.0.0.1:9", "ASSAY_DATA": str(data)}
    environment |= {"ASSAY_ARXIV_API_URL": "http://127.0.0.1:9", "WEB_CONCURRENCY": "1"}
    # It collects its own static files, and unpacks no encoder: 90 MB beside its data.
    environment |= {"ASSAY_STATIC": "", "ASSAY_ENCODER": "off"}
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
        listener.join()

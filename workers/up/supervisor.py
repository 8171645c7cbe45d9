"""Starts a few child processes, restarts those that die, and leaves none behind.

It has one thread and one loop, so that it can fork. Each child leads its own process group: Ctrl-C
reaches only the supervisor, and a child's own children can be killed with it. Every child dies with
the supervisor, even if that is killed with SIGKILL (`assay_common.parent_death`).
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from select import select

from assay_common.parent_death import die_with_parent, name_process
from workers.up.logs import LogFile, worth_reading

STOP_SECONDS = 2.5  # from TERM to KILL; all children must be gone within 5 s of a request to stop
STEADY_SECONDS = 30.0  # a child that has lived this long is restarted sooner
PAUSE = 5.0  # seconds between two looks whether a child may start
LONGEST_WAIT = 5.0  # seconds between two starts of a child that keeps dying, or two wake-ups


@dataclass(frozen=True)
class Child:
    """A child: its name in the log, and the function that it runs in a fork of the supervisor.

    `once`: it ends by itself and is not restarted. `last`: it is stopped after the others, which
    need it while they stop. `keep`: file descriptors it inherits besides the standard three.
    `when`: it starts once this is true; a process that waits for it would only take memory.
    """

    name: str
    run: Callable[[], object]
    once: bool = False
    last: bool = False
    keep: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    when: Callable[[], bool] = lambda: True


@dataclass
class _Running:
    child: Child
    process: ForkProcess
    output: FileIO
    started: float
    log: LogFile
    rest: bytes = b""  # an incomplete last line


class Supervisor:
    """Runs children until SIGINT, SIGTERM or SIGHUP.

    Use it as a context manager in the main thread: leaving it stops every child.
    """

    def __init__(self, folder: Path, logs: Path, report: Callable[[str, str], None]) -> None:
        self.folder, self.logs, self.report = folder, logs, report
        self.stopping = False
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, tuple[float, Child]] = {}  # name: when to start it again
        self._waits: dict[str, float] = {}  # seconds, after the last death
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Supervisor:
        self.logs.mkdir(parents=True, exist_ok=True)
        self._bell, self._alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._former_wakeup = signal.set_wakeup_fd(self._alarm, warn_on_full_buffer=False)
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGCHLD]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup
            numbers.append(signal.SIGHUP)
        self._former = {number: signal.signal(number, self._on_signal) for number in numbers}
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop_children()
        for number, handler in self._former.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._former_wakeup)
        self._selector.close()
        os.close(self._bell)
        os.close(self._alarm)

    def start(self, child: Child) -> None:
        """Start a child as soon as it may, and again whenever it dies (unless `once`)."""
        if not child.when():
            self._waiting[child.name] = (time.monotonic() + PAUSE, child)
            return
        try:
            process, output = self._fork(child)
        except OSError as error:  # out of memory, processes or descriptors: try again later
            self._start_later(child, LONGEST_WAIT, f"not started ({error})")
            return
        os.set_blocking(output.fileno(), False)
        log = LogFile(self.logs / f"{child.name}.log")
        running = _Running(child, process, output, time.monotonic(), log)
        self._selector.register(output, selectors.EVENT_READ, running)
        self._running[child.name] = running

    def _fork(self, child: Child) -> tuple[ForkProcess, FileIO]:
        reading, writing = os.pipe()
        output = FileIO(reading)
        try:
            process = get_context("fork").Process(
                target=self._become, args=(child, os.getpid(), writing), name=child.name
            )
            process.start()
        except OSError:
            output.close()
            raise
        finally:
            os.close(writing)
        with suppress(OSError):  # the child does the same: whichever comes first
            os.setpgid(_pid(process), _pid(process))
        return process, output

    def _become(self, child: Child, parent: int, output: int) -> None:
        """Undo the supervisor's state in the fork, then run the child."""
        os.setpgid(0, 0)
        die_with_parent(parent)
        name_process(f"assay-{child.name}")
        signal.set_wakeup_fd(-1)
        for number in self._former:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # Listed before any is closed, because listing opens a descriptor itself.
        opened = {int(entry.name) for entry in Path("/dev/fd").iterdir()}
        for descriptor in opened - {0, 1, 2, *child.keep}:
            with suppress(OSError):
                os.close(descriptor)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        os.chdir(self.folder)
        os.environ.update({"PYTHONUNBUFFERED": "1", **child.environment})
        child.run()

    def run(self) -> None:
        """Keep the children running until a stop is requested."""
        while not self.stopping:
            self.pump(LONGEST_WAIT)

    def pump(self, seconds: float) -> None:
        """Forward output, reap and restart children; returns after an event or `seconds`."""
        now = time.monotonic()
        due = min((when for when, _ in self._waiting.values()), default=now + seconds)
        for key, _ in self._selector.select(max(0.0, min(seconds, due - now))):
            if key.data is None:
                with suppress(BlockingIOError):
                    os.read(self._bell, 4096)
            else:
                self._read(key.data)
        self._reap()
        if self.stopping:
            return
        now = time.monotonic()
        for name, (when, child) in list(self._waiting.items()):
            if when <= now:
                del self._waiting[name]
                self.start(child)

    def _on_signal(self, number: int, frame: object) -> None:
        if number == signal.SIGCHLD:
            return  # it only has to wake the loop
        if self.stopping:  # the second request: do not wait any longer
            for running in self._running.values():
                _kill_group(running.process)
        self.stopping = True

    def _read(self, running: _Running) -> None:
        data = running.output.read(65536)
        if data is None:  # no data yet
            return
        if not data:
            self._selector.unregister(running.output)
            running.output.close()
        *lines, running.rest = (running.rest + data).split(b"\n")
        if running.rest and (not data or len(running.rest) > 8192):
            lines, running.rest = [*lines, running.rest], b""
        for line in (raw.decode(errors="replace").rstrip() for raw in lines):
            running.log.write(line)
            # Show all of a child that runs once; of the others only news, warnings and errors.
            if shown := line if running.child.once else worth_reading(line):
                self.report(running.child.name, shown)

    def _reap(self) -> None:
        for name, running in list(self._running.items()):
            if running.process.exitcode is None:
                continue
            # Also end what it started itself, however it died.
            _kill_group(running.process)
            self._drain(running)
            del self._running[name]
            if not self.stopping:
                self._after_death(running)

    def _drain(self, running: _Running) -> None:
        output = running.output
        deadline = time.monotonic() + 1.0
        while not output.closed and time.monotonic() < deadline:
            select([output], [], [], 0.1)
            self._read(running)
        if not output.closed:
            self._selector.unregister(output)
            output.close()
        running.log.close()

    def _after_death(self, running: _Running) -> None:
        child, status = running.child, running.process.exitcode or 0
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        if child.once:
            if status:
                self.report("up", f"{child.name} failed ({how}); see {self.logs / child.name}.log")
            return
        steady = time.monotonic() - running.started > STEADY_SECONDS
        wait = 1.0 if steady else min(2 * self._waits.get(child.name, 0.5), LONGEST_WAIT)
        self._waits[child.name] = wait
        if status:
            self._start_later(child, wait, f"died ({how})")
        else:  # it wants to begin anew
            self._waiting[child.name] = (time.monotonic() + wait, child)

    def _start_later(self, child: Child, wait: float, what: str) -> None:
        self.report("up", f"{child.name} {what}; starting it again in {wait:.0f} s")
        self._waiting[child.name] = (time.monotonic() + wait, child)

    def _stop_children(self) -> None:
        """Send TERM to each child, then KILL to the rest of its group."""
        self.stopping = True
        self._waiting.clear()
        deadline = time.monotonic() + STOP_SECONDS
        for last in (False, True):
            stopped = {
                name for name, running in self._running.items() if running.child.last == last
            }
            for name in stopped:
                self._running[name].process.terminate()
            while stopped & self._running.keys() and time.monotonic() < deadline:
                self.pump(min(0.2, deadline - time.monotonic()))
        for running in self._running.values():
            _kill_group(running.process)
        for running in self._running.values():
            running.process.join()
            self._drain(running)
        self._running.clear()


def _pid(process: ForkProcess) -> int:
    assert process.pid is not None, "it was started"
    return process.pid


def _kill_group(leader: ForkProcess) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(_pid(leader), signal.SIGKILL)

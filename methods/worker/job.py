"""Runs one job in the worker's child process: start, watch, end, clean up, report.

The benchmark is a subprocess under a reaper. Its standard output holds events, perhaps mixed with
other output; its standard error goes to the log.
"""

import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from .. import protocol
from ..protocol import Failed, Job, Strict
from . import hardware, reaper, sandbox
from .cancel import CancelFlags
from .events import EventSender, TooMuchError
from .lines import Lines

TICK = 0.1  # seconds; waking up more often would disturb the measurement
MEMORY_EVERY = 0.5
GRACE = 1.0  # between TERM and KILL
LINGER = 10.0  # for a benchmark to exit after its result
GPU_FREE_WITHIN = 10.0
GPU_SLACK_MIB = 64

log = logging.getLogger(__name__)


class Measurement:
    """One job on this machine, which `cancel` may end; `events` sends its events to the site."""

    def __init__(
        self, job: Job, machine: hardware.Machine, cancel: CancelFlags, events: EventSender
    ) -> None:
        self._job, self._machine, self._cancel, self._events = job, machine, cancel, events
        allowed = machine.memory_bytes
        self._memory = min(job.limits.memory_bytes or allowed, allowed)
        self._outcome: Strict | None = None  # as the benchmark reported it
        self._stopped: Strict | None = None  # why we ended it, where we did
        self._end_by = float("inf")

    def run(self, private: Path) -> Strict:
        """Measure in `private`; the last event, when no process of the benchmark is left."""
        # Sent before torch is imported, so that the reader sees that a worker has taken the run.
        self._events.set_progress(protocol.Progress(fraction=0.0, message="starting", elapsed=0.0))
        self._events.flush()
        before = hardware.gpu_used_mib() if self._machine.device == "gpu" else 0
        kills = hardware.oom_kills()
        if self._cancel.cancelled(self._job.token):
            return protocol.Cancelled(reason="Cancelled before it started.")
        status = self._watch(self._start(private))
        reaper.kill_descendants(0)  # what the reaper did not kill: it may have been killed itself
        if self._machine.device == "gpu":
            self._wait_for_gpu_memory(before)
        return self._final_event(status, hardware.oom_kills() > kills)

    def _start(self, private: Path) -> subprocess.Popen[bytes]:
        spec = reaper.Spec(
            argv=sandbox.command(self._job, self._machine.device),
            cwd=str(private),
            env=sandbox.environment(private),
            limits=sandbox.limits(self._machine.device, self._memory),
            grace=GRACE,
        )
        return subprocess.Popen(
            [sys.executable, "-I", reaper.__file__, str(os.getpid()), json.dumps(spec)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            start_new_session=True,
        )

    def _watch(self, process: subprocess.Popen[bytes]) -> int:
        """Read the output until the reaper has exited; its exit status."""
        assert process.stdout
        assert process.stderr
        lines = Lines(protocol.MAX_EVENT_BYTES)
        with selectors.DefaultSelector() as selector, process:
            selector.register(process.stdout, selectors.EVENT_READ, lines)
            selector.register(process.stderr, selectors.EVENT_READ, None)
            deadline = time.monotonic() + self._job.limits.seconds
            memory_at = terminated_at = 0.0
            while selector.get_map():
                for key, _ in selector.select(TICK):
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.data is None:
                        self._events.write_log(data)
                    else:
                        self._read_events(lines, data)
                now = time.monotonic()
                if self._stopped is None:
                    check_memory = now >= memory_at
                    memory_at = now + MEMORY_EVERY if check_memory else memory_at
                    late = now > deadline
                    self._stopped = self._reason_to_stop(process.pid, late, memory=check_memory)
                self._end_by = min(self._end_by, now) if self._stopped else self._end_by
                if now >= self._end_by and not terminated_at:
                    process.terminate()
                    terminated_at = now
                if terminated_at and now > terminated_at + 2 * GRACE:
                    process.kill()  # the reaper does not respond
                if process.poll() is not None:
                    reaper.kill_descendants(0)  # orphans may keep the pipes open
                self._events.flush()
            return process.wait()

    def _read_events(self, lines: Lines, data: bytes) -> None:
        """Handle the events in a piece of standard output; other lines go to the log."""
        for line in lines.feed(data):
            try:
                body = protocol.Line.parse(line).body
            except protocol.ProtocolError:
                self._events.write_log(line + b"\n")
                continue
            try:
                self._take(body)
            except TooMuchError:
                self._refuse("It sent more than a run may hold.")
            except protocol.ProtocolError as error:
                self._refuse(f"An event cannot be sent: {error}")

    def _refuse(self, why: str) -> None:
        """End the benchmark; a later result of it would name what was never sent."""
        self._outcome = self._stopped = Failed(kind="error", message=why)

    def _take(self, body: Strict) -> None:
        if self._outcome is not None:
            return  # its outcome was its last event
        if isinstance(body, protocol.Result) and body.named() != self._events.sent:
            body = Failed(kind="error", message="Its result is not of what it had sent.")
        if isinstance(body, protocol.Result | protocol.Failed | protocol.Cancelled):
            self._outcome = body
            self._end_by = time.monotonic() + LINGER
        elif isinstance(body, protocol.Progress):
            self._events.set_progress(body)
        elif isinstance(body, protocol.Log):
            self._events.write_log(body.text.encode())
        else:
            self._events.send_result(body)

    def _reason_to_stop(self, root: int, late: bool, *, memory: bool) -> Strict | None:
        """Return the event that ends the benchmark now, or None if it may go on."""
        if self._cancel.cancelled(self._job.token):
            return protocol.Cancelled(reason="Cancelled.")
        if self._cancel.stopping:
            return Failed(kind="killed", message="The worker was shut down.")
        if late:
            limit = self._job.limits.seconds
            return Failed(kind="timeout", message=f"It ran past its limit of {limit} s.")
        if memory and (used := _resident_bytes(root)) > self._memory:
            sizes = f"{used / 2**20:.0f} MiB used, {self._memory / 2**20:.0f} MiB allowed"
            return Failed(kind="memory", message=f"It ran out of memory: {sizes}.")
        return None

    def _final_event(self, status: int, oom: bool) -> Strict:
        """The last event. A result that was read counts, whatever happened after it."""
        outcome = self._outcome
        if isinstance(outcome, protocol.Result):
            return outcome
        if self._stopped is not None:
            return self._stopped
        # Whether a run was killed or late is for the worker to decide, not for the benchmark.
        if isinstance(outcome, Failed) and outcome.kind not in {"killed", "timeout"}:
            return outcome
        if oom:
            return Failed(kind="memory", message="The kernel ended it: out of memory.")
        if outcome or status < 0 or status - 128 in (signal.SIGKILL, signal.SIGTERM):
            return Failed(kind="killed", message="It was killed from outside.")
        return Failed(kind="error", message=_describe_exit(status))

    def _wait_for_gpu_memory(self, before: int) -> None:
        """Wait until the GPU's memory is free again; if it is not, the log says so."""
        give_up = time.monotonic() + GPU_FREE_WITHIN
        while (used := hardware.gpu_used_mib()) > before + GPU_SLACK_MIB:
            if time.monotonic() > give_up:
                self._events.write_log(
                    f"[{used - before} MiB of the GPU are not free again]\n".encode()
                )
                return
            time.sleep(0.2)


def _describe_exit(status: int) -> str:
    if status > 128:
        return f"It crashed with {signal.Signals(status - 128).name}; see its log."
    if status:
        return f"It exited with status {status}; see its log."
    return "It ended without a result."


def _resident_bytes(root: int) -> int:
    """Bytes used by `root` and its descendants: private pages of each, shared ones once."""
    private, shared = 0, [0]
    for pid in [root, *reaper.descendants(root)]:
        with suppress(psutil.Error):  # it ended meanwhile
            memory = psutil.Process(pid).memory_info()
            private += memory.rss - memory.shared
            shared.append(memory.shared)
    return private + max(shared)

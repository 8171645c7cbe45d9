"""One job, from its message to its last event: start, watch, end, clean up, report.

Runs in the worker's child process. The benchmark is a subprocess under a warden; its standard
output holds events between which any garbage may stand, its standard error is log.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from methods import protocol
from methods.protocol import Failed, Job, Strict
from workers import machine, sandbox, warden
from workers.orders import Orders
from workers.reader import Lines
from workers.voice import TooMuchError, Voice

TICK = 0.1  # seconds; a supervisor that wakes more often steals time from the measurement
MEMORY_EVERY = 0.5
GRACE = 1.0  # between TERM and KILL
LINGER = 10.0  # for a benchmark to exit after its result
GPU_FREE_WITHIN = 10.0
GPU_SLACK_MIB = 64
PAGE = os.sysconf("SC_PAGE_SIZE")

log = logging.getLogger(__name__)


class Supervisor:
    """Runs one job on `here`; `orders` may end it, `voice` tells the site.

    `farewell` tells it that this worker takes no more.
    """

    def __init__(
        self,
        job: Job,
        here: machine.Machine,
        orders: Orders,
        voice: Voice,
        farewell: Callable[[], None],
    ) -> None:
        self._farewell = farewell
        self._job, self._here, self._orders, self._voice = job, here, orders, voice
        allowed = here.memory_mib * machine.MIB
        self._memory = min(job.limits.memory_bytes or allowed, allowed)
        self._said: Strict | None = None  # the benchmark's own last word
        self._verdict: Strict | None = None  # ours, where we ended it
        self._end_by = float("inf")

    def run(self, private: Path) -> None:
        """Measure in `private`; the last event is sent when nothing is left of the benchmark."""
        # Heard before torch is imported: the reader sees that a worker took the run.
        self._voice.show(protocol.Progress(fraction=0.0, message="starting", elapsed=0.0))
        self._voice.tick()
        before = machine.gpu_used_mib() if self._here.device == "gpu" else 0
        kills = machine.oom_kills()
        if self._orders.cancelled(self._job.token):
            self._voice.end(protocol.Cancelled(reason="Cancelled before it started."))
            return
        status = self._watch(self._start(private))
        sandbox.empty()
        if self._here.device == "gpu":
            self._see_gpu_free(before)
        if self._orders.stopping:
            self._farewell()  # first: what this run leaves behind must not come back here
        self._voice.end(self._last_word(status, machine.oom_kills() > kills))

    def _start(self, private: Path) -> subprocess.Popen[bytes]:
        spec = warden.Spec(
            argv=sandbox.command(self._job, self._here.device),
            cwd=str(private),
            env=sandbox.environment(private),
            limits=sandbox.limits(self._here.device, self._memory),
            grace=GRACE,
        )
        return subprocess.Popen(
            [sys.executable, "-I", warden.__file__, str(os.getpid()), json.dumps(spec)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            start_new_session=True,
        )

    def _watch(self, process: subprocess.Popen[bytes]) -> int:
        """Read all that comes until the warden is gone; its exit status."""
        assert process.stdout
        assert process.stderr
        lines = Lines(protocol.MAX_EVENT_BYTES)
        with selectors.DefaultSelector() as ears, process:
            ears.register(process.stdout, selectors.EVENT_READ, lines)
            ears.register(process.stderr, selectors.EVENT_READ, None)
            deadline = time.monotonic() + self._job.limits.seconds
            weigh_at = told_at = 0.0
            while ears.get_map():
                for key, _ in ears.select(TICK):
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        ears.unregister(key.fileobj)
                    elif key.data is None:
                        self._voice.write(data)
                    else:
                        self._hear(lines, data)
                now = time.monotonic()
                if self._verdict is None:
                    weigh = now >= weigh_at
                    weigh_at = now + MEMORY_EVERY if weigh else weigh_at
                    self._verdict = self._judge(process.pid, now > deadline, weigh=weigh)
                self._end_by = min(self._end_by, now) if self._verdict else self._end_by
                if now >= self._end_by and not told_at:
                    process.terminate()
                    told_at = now
                if told_at and now > told_at + 2 * GRACE:
                    process.kill()  # the warden hangs
                if process.poll() is not None:
                    sandbox.empty()  # it was killed: orphans may hold the pipes open
                self._voice.tick()
            return process.wait()

    def _hear(self, lines: Lines, data: bytes) -> None:
        """Take the events in a piece of standard output; what is none goes to the log."""
        for line in lines.feed(data):
            try:
                body = protocol.Line.parse(line).body
            except protocol.ProtocolError:
                self._voice.write(line + b"\n")
                continue
            try:
                self._take(body)
            except TooMuchError:
                self._verdict = Failed(kind="error", message="It sent more than a run may hold.")
            except protocol.ProtocolError as error:
                self._verdict = Failed(kind="error", message=f"An event cannot be sent: {error}")

    def _take(self, body: Strict) -> None:
        if self._said is not None:
            return  # nothing counts after the last word
        if isinstance(body, protocol.Result) and body.named() != self._voice.said:
            body = Failed(kind="error", message="Its result is not of what it had sent.")
        if isinstance(body, protocol.Result | protocol.Failed | protocol.Cancelled):
            self._said = body
            self._end_by = time.monotonic() + LINGER
        elif isinstance(body, protocol.Progress):
            self._voice.show(body)
        elif isinstance(body, protocol.Log):
            self._voice.write(body.text.encode())
        else:
            self._voice.say(body)

    def _judge(self, root: int, late: bool, *, weigh: bool) -> Strict | None:
        """Why the benchmark must end now; None while it may go on."""
        if self._orders.cancelled(self._job.token):
            return protocol.Cancelled(reason="Cancelled.")
        if self._orders.stopping:
            return Failed(kind="killed", message="The worker was shut down.")
        if late:
            limit = self._job.limits.seconds
            return Failed(kind="timeout", message=f"It ran past its limit of {limit} s.")
        if weigh and (used := _resident(root)) > self._memory:
            return self._too_large(used)
        return None

    def _too_large(self, used: int) -> Failed:
        sizes = f"{used / 2**20:.0f} MiB used, {self._memory / 2**20:.0f} MiB allowed"
        return Failed(kind="memory", message=f"It ran out of memory: {sizes}.")

    def _last_word(self, status: int, oom: bool) -> Strict:
        """How the run ended. A result that was heard counts, whatever came after it."""
        said, ours_to_say = self._said, {"killed", "timeout"}
        if isinstance(said, protocol.Result):
            return said
        if self._verdict is not None:
            return self._verdict
        if isinstance(said, Failed) and said.kind not in ours_to_say:
            return said
        if oom:
            return Failed(kind="memory", message="The kernel ended it: out of memory.")
        if said or status < 0 or status - 128 in (signal.SIGKILL, signal.SIGTERM):
            return Failed(kind="killed", message="It was killed from outside.")
        return Failed(kind="error", message=_blame(status))

    def _see_gpu_free(self, before: int) -> None:
        """Wait until the GPU's memory is back; say so in the log where it is not."""
        give_up = time.monotonic() + GPU_FREE_WITHIN
        while (used := machine.gpu_used_mib()) > before + GPU_SLACK_MIB:
            if time.monotonic() > give_up:
                self._voice.write(f"[{used - before} MiB of the GPU are not free again]\n".encode())
                return
            time.sleep(0.2)


def _blame(status: int) -> str:
    if status > 128:
        return f"It crashed with {signal.Signals(status - 128).name}; see its log."
    if status:
        return f"It exited with status {status}; see its log."
    return "It ended without a result."


def _resident(root: int) -> int:
    """Bytes held by `root` and all below it: private pages of each, shared ones once."""
    private, shared = 0, [0]
    for pid in [root, *warden.descendants(root)]:
        try:
            fields = Path(f"/proc/{pid}/statm").read_text().split()
        except OSError:
            continue  # it ended meanwhile
        private += int(fields[1]) - int(fields[2])
        shared.append(int(fields[2]))
    return (private + max(shared)) * PAGE

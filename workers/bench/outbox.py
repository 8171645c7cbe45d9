"""Sends a bench worker's events and heartbeats to the broker from one thread, in order.

Measuring never waits for the broker: a message is posted, and the thread sends it and tries again
while the broker is unreachable. Snapshots replace each other while they wait.
"""

import heapq
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from itertools import count

from webapp import env

Message = tuple[str, Mapping[str, object]]  # a task's name and its argument

HEARTBEAT = env.read().lease / 6  # seconds
REPEATS = (HEARTBEAT / 5, HEARTBEAT)  # after which the end of a run is sent again: it may be lost
BEHIND = 50  # messages that wait
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0

log = logging.getLogger(__name__)


class Outbox:
    """A thread that sends messages by `send`, which raises while the broker cannot be reached.

    Every `every` seconds it also sends what `heartbeat` returns at that moment.
    """

    def __init__(
        self, send: Callable[[Message], None], heartbeat: Callable[[], Message], every: float
    ) -> None:
        self._send, self._heartbeat, self._every = send, heartbeat, every
        self._due: list[tuple[float, int, Message]] = []
        self._order = count()
        self._snapshot: Message | None = None
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        """Begin to send; the first heartbeat goes at once."""
        self._thread.start()

    def post(self, message: Message, after: float = 0.0) -> None:
        """Send a message, `after` seconds from now."""
        now = time.monotonic()
        with self._changed:
            heapq.heappush(self._due, (now + after, next(self._order), message))
            self._changed.notify()

    def post_snapshot(self, snapshot: Message) -> None:
        """Send a snapshot; one that still waits is replaced."""
        with self._changed:
            self._snapshot = snapshot
            self._changed.notify()

    @property
    def behind(self) -> bool:
        """Whether the broker takes less than is posted: time to post less often."""
        now = time.monotonic()
        with self._changed:
            return sum(when <= now for when, *_ in self._due) > BEHIND

    def close(self, seconds: float) -> None:
        """Send what waits, for at most `seconds`, then stop. Repeats still to come are dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        next_heartbeat = time.monotonic()
        try:
            while True:
                with self._changed:
                    message, next_heartbeat = self._next(next_heartbeat)
                if message is None:
                    return
                self._deliver(message)
        except BaseException:
            # A process that can send nothing must not go on measuring: the pool starts another.
            log.exception("The outbox failed; this process exits and the pool starts another")
            os._exit(1)

    def _next(self, next_heartbeat: float) -> tuple[Message | None, float]:
        """Wait for what to send next; None when the box is closed and empty."""
        while True:
            now = time.monotonic()
            if self._due and self._due[0][0] <= now:
                return heapq.heappop(self._due)[2], next_heartbeat
            if self._snapshot is not None:
                snapshot, self._snapshot = self._snapshot, None
                return snapshot, next_heartbeat
            if self._closing:
                return None, next_heartbeat
            if next_heartbeat <= now:
                return self._heartbeat(), now + self._every
            until = min(next_heartbeat, self._due[0][0]) if self._due else next_heartbeat
            self._changed.wait(until - now)

    def _deliver(self, message: Message) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                self._send(message)
            except OSError as error:  # kombu's OperationalError is wrapped by the caller
                log.warning("Broker unreachable, retrying in %.1f s: %s", pause, error)
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return

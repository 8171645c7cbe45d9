"""Sends a bench worker's events and heartbeats to the broker from one thread, in order.

Measuring never waits for the broker: messages are posted, and the thread sends them, retrying
while the broker is unreachable. A snapshot replaces one that still waits.
"""

import logging
import os
import sched
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from kombu.exceptions import OperationalError

from assay_common import env

Message = tuple[str, Mapping[str, object]]  # a task's name and its argument

HEARTBEAT = env.read().lease / 6  # seconds, while a job runs
IDLE_HEARTBEAT = 2 * HEARTBEAT  # the site takes a worker for lost after two of these
REPEATS = (HEARTBEAT / 5, HEARTBEAT)  # delays after which the end of a run is sent again
BEHIND = 50  # waiting messages
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0

log = logging.getLogger(__name__)


class Outbox:
    """A thread that sends messages with `send`, again while the broker is unreachable.

    It also sends what `heartbeat` returns, and again after the seconds that `pause` returns.
    """

    def __init__(
        self,
        send: Callable[[Message], None],
        heartbeat: Callable[[], Message],
        pause: Callable[[], float],
    ) -> None:
        self._send, self._heartbeat, self._pause = send, heartbeat, pause
        self._due = sched.scheduler(time.monotonic)
        self._snapshot: sched.Event | None = None
        self._changed = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        """Start sending, with a heartbeat first."""
        self._thread.start()

    def post(self, message: Message, after: float = 0.0) -> sched.Event:
        """Send a message, `after` seconds from now."""
        event = self._due.enter(after, 0, self._deliver, (message,))
        self._changed.set()
        return event

    def post_snapshot(self, snapshot: Message) -> None:
        """Send a snapshot, in place of one that still waits."""
        if self._snapshot:
            with suppress(ValueError):  # it has been sent
                self._due.cancel(self._snapshot)
        self._snapshot = self.post(snapshot)

    @property
    def behind(self) -> bool:
        """Return whether messages are posted faster than the broker takes them."""
        now = time.monotonic()
        return sum(event.time <= now for event in self._due.queue) > BEHIND

    def close(self, seconds: float) -> None:
        """Send what waits, for at most `seconds`, then stop. Later repeats are dropped."""
        self._closing = True
        self._changed.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        closing = False
        try:
            self._beat()
            while not closing:
                self._changed.clear()
                closing = self._closing  # before what was posted until then is sent
                pause = self._due.run(blocking=False)
                if not closing:
                    self._changed.wait(pause)
        except BaseException:
            # A process that cannot send must not go on measuring: the pool starts another.
            log.exception("The outbox failed; this process exits and the pool starts another")
            os._exit(1)

    def _beat(self) -> None:
        self._deliver(self._heartbeat())
        self._due.enter(self._pause(), 0, self._beat)

    def _deliver(self, message: Message) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                self._send(message)
                return
            except (OperationalError, OSError) as error:
                log.warning("Broker unreachable, retrying in %.1f s: %s", pause, error)
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

"""Liveness of a process that has no address: a file, touched while all is well.

A container's health check looks at its age. That costs nothing beside a running measurement; to
ping the worker would start a Python every time.
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

from celery import bootsteps

from webapp import env

SECONDS = 10.0
DATA_DIR = env.data_directory(Path(__file__).resolve().parent.parent)

log = logging.getLogger(__name__)


def touch(name: str) -> None:
    """Record that process `name` is well now; on a full disk it is not."""
    folder = DATA_DIR / "alive"
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        (folder / name).touch()


class LivenessFile(bootsteps.StartStopStep):
    """Touches a worker's file from the loop that also takes its messages.

    A part of the consumer, not of the worker: a lost broker clears the timer, and the consumer
    that comes back starts this again.
    """

    requires = ("celery.worker.consumer.connection:Connection",)
    entry: Any = None  # of the timer; a connection may fail before there is one

    def start(self, consumer: Any) -> None:
        """Begin when the worker is connected."""
        touch(consumer.hostname)
        self.entry = consumer.timer.call_repeatedly(SECONDS, touch, (consumer.hostname,))

    def stop(self, consumer: Any) -> None:
        """End with the connection."""
        if self.entry:
            self.entry.cancel()

"""Liveness files: touched by processes that serve no port, while they are healthy.

A container's health check looks at the file's age. That costs next to nothing beside a running
measurement, whereas a ping of the worker would start a Python process each time.
"""

import logging
from contextlib import suppress
from typing import Any

from celery import bootsteps

from assay_common import env

SECONDS = 20.0

log = logging.getLogger(__name__)


def touch(name: str) -> None:
    """Record that process `name` is healthy now; on a full disk nothing is recorded."""
    folder = env.data_path() / "alive"
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        (folder / name).touch()


class LivenessFile(bootsteps.StartStopStep):
    """Touches a worker's file from the loop that takes its messages.

    It is a step of the consumer, not of the worker: when the broker is lost the timer is cleared,
    and the new consumer starts this step again.
    """

    requires = ("celery.worker.consumer.connection:Connection",)
    entry: Any = None  # the timer's; a connection may fail before there is one

    def start(self, consumer: Any) -> None:
        """Start when the worker is connected."""
        touch(consumer.hostname)
        self.entry = consumer.timer.call_repeatedly(SECONDS, touch, (consumer.hostname,))

    def stop(self, consumer: Any) -> None:
        """Stop with the connection."""
        if self.entry:
            self.entry.cancel()

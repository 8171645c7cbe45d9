"""Liveness of a process that has no address: a file, touched while all is well.

A container's health check looks at its age. That costs nothing beside a running measurement; to
ping the worker would start a Python every time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from celery import bootsteps

SECONDS = 5.0


def touch(data: Path, name: str) -> None:
    """Record that process `name` is well now."""
    folder = data / "alive"
    folder.mkdir(exist_ok=True)
    (folder / name).touch()


class LivenessStep(bootsteps.StartStopStep):
    """Reports every few seconds, from the loop that also takes the worker's messages.

    A part of the consumer, not of the worker: a lost broker clears the timer, and the consumer
    that comes back starts this again.
    """

    requires = ("celery.worker.consumer.connection:Connection",)

    def start(self, consumer: Any) -> None:
        """Begin when the worker is connected."""
        self.report(consumer.hostname)
        self.entry = consumer.timer.call_repeatedly(SECONDS, self.report, (consumer.hostname,))

    def stop(self, consumer: Any) -> None:
        """End with the connection."""
        self.entry.cancel()

    def report(self, name: str) -> None:
        """Record that the worker `name` is alive."""
        raise NotImplementedError

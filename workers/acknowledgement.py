"""A task's acknowledgement that is lost with the broker makes its worker connect anew.

Celery logs such a loss and goes on. But a worker that takes one message at a time reads no further
one while one is unacknowledged, and so never sees that its connection has ended: it is idle for
good, while its heartbeats go on.
"""

import logging
from typing import Any

from celery import Task as CeleryTask
from celery.worker.request import Request as CeleryRequest
from kombu.asynchronous import get_event_loop

log = logging.getLogger(__name__)


class Request(CeleryRequest):
    """A message that a worker has taken."""

    def acknowledge(self) -> None:
        """Let the broker forget the message, or have the worker's loop end and connect again.

        The message then comes a second time, which every task bears.
        """
        if self.acknowledged:
            return
        try:
            self._on_ack(log, ())  # type: ignore[attr-defined] # the stubs lack it
        except self._connection_errors as error:  # type: ignore[attr-defined]
            log.warning("Message %s was not acknowledged, connecting again: %s", self.id, error)
            if loop := get_event_loop():
                loop.call_soon(_raise, error)
        self.acknowledged = True


class Task(CeleryTask):  # type: ignore[type-arg]
    """A task whose messages are acknowledged so."""

    Request: Any = Request


def _raise(error: Exception) -> None:
    raise error

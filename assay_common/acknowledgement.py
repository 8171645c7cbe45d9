"""Requests and tasks of our workers: a worker reconnects when an acknowledgement is lost.

Celery logs such a loss and goes on. But a worker that takes one message at a time reads no other
while one is unacknowledged, and so never notices that its connection has ended: it stays idle for
ever, while its heartbeats go on.
"""

import logging
from typing import Any

from celery import Task as CeleryTask
from celery.worker.request import Request as CeleryRequest
from kombu.asynchronous import get_event_loop

log = logging.getLogger(__name__)


class Request(CeleryRequest):
    """A message that a worker has taken."""

    # Tasks that would follow this one if it is ended from outside: no message may name any.
    errbacks: Any = None
    chord: Any = None

    def acknowledge(self) -> None:
        """Acknowledge the message; if the broker is lost, make the worker's loop reconnect.

        The message is then delivered a second time, which every task tolerates.
        """
        if self.acknowledged:
            return
        try:
            # Not its public twin `on_ack`: see `redis_transport.Channel`.
            self._on_ack(log, ())  # type: ignore[attr-defined] # the stubs lack it
        except self._connection_errors as error:  # type: ignore[attr-defined]
            log.warning("Message %s was not acknowledged, connecting again: %s", self.id, error)
            if loop := get_event_loop():
                loop.call_soon(_raise, error)
        self.acknowledged = True


class Task(CeleryTask):  # type: ignore[type-arg]
    """A task whose messages are such requests."""

    Request: Any = Request


def _raise(error: Exception) -> None:
    raise error

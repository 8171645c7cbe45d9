"""A Redis transport that a malformed message does not end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any

from kombu.transport import redis
from redis.exceptions import DataError

# What kombu and Celery raise of a message that is none.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError, DataError)

log = logging.getLogger(__name__)


class Channel(redis.Channel):
    """Logs and drops a message that is no message: not JSON, a list, a header of a wrong type.

    kombu and Celery raise out of the worker's loop there, which ends the worker.
    """

    # kombu's types lack them.
    _in_poll: Any
    _brpop_read: Callable[[], object]
    connection_errors: tuple[type[Exception], ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.handlers = {
            kind: partial(self._drop_malformed, handler) for kind, handler in self.handlers.items()
        }

    def _drop_malformed(self, handler: Callable[[], object]) -> object:
        held = set(self.qos._delivered or ())
        try:
            return handler()
        except MALFORMED as error:
            log.warning("Malformed message dropped: %s: %.200s", type(error).__name__, error)
            # Unless it is rejected it takes one of the few places of messages under way, for ever.
            for tag in set(self.qos._delivered or ()) - held:
                self.basic_reject(tag, requeue=False)
            return None

    def close(self) -> None:
        """Close without waiting for a message any longer."""
        if self._in_poll and (line := self._in_poll._sock):
            # Redis forgets a client that will say no more, and sends first what it took for it.
            with suppress(OSError):
                socket.socket.shutdown(line, socket.SHUT_WR)
            with suppress(Empty, *self.connection_errors):
                self._brpop_read()
        super().close()


class Transport(redis.Transport):
    """kombu's Redis transport with that channel."""

    Channel = Channel
    brpop_timeout = 10  # seconds; a worker at rest asks anew so often, and a message comes at once

    def _deliver(self, message: Any, queue: str | None) -> None:
        # A task's own limit counts; one of a wrong type would end the worker when it is compared.
        message["headers"].pop("timelimit", None)
        super()._deliver(message, queue)

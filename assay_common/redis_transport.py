"""A Redis transport whose worker survives a malformed message."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any
from uuid import uuid4

from kombu.transport import redis
from redis.exceptions import DataError

from assay_common.redis_broker import EVENTS

# What kombu and Celery raise for a malformed message.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError, DataError)

log = logging.getLogger(__name__)


class Channel(redis.Channel):
    """Logs and drops malformed messages: not JSON, a list, a header of a wrong type.

    kombu and Celery would raise out of the worker's loop, which ends the worker.
    """

    # Private names of kombu, which its types lack: it has no public hook that ends the wait for the
    # next message, and its own close waits for it. A QoS class of ours that remembers the last tag
    # could replace `_delivered`; with it and `Request.on_ack` a storm of kills that takes 47 s did
    # not end in five minutes on a busy machine, and why was not found.
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
            # Unless it is rejected, it counts against the prefetch limit for ever.
            for tag in set(self.qos._delivered or ()) - held:
                self.basic_reject(tag, requeue=False)
            return None

    def close(self) -> None:
        """Close without waiting for a message any longer."""
        if self._in_poll and (line := self._in_poll._sock):
            # Redis ends a half-closed connection, after sending what it has popped for it.
            with suppress(OSError):
                socket.socket.shutdown(line, socket.SHUT_WR)
            with suppress(Empty, *self.connection_errors):
                self._brpop_read()
        super().close()


class Transport(redis.Transport):
    """kombu's Redis transport with this channel."""

    Channel = Channel
    # Seconds between two polls of an idle worker; a message comes at once.
    brpop_timeout = 30
    # Seconds between other timers of an idle worker. Each time that it wakes costs as much as a
    # short task; what they look after lasts for an hour.
    timers = 60

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Let a worker's loop serve this transport; it wakes no more often than it must."""
        options = connection.client.transport_options
        for name in ("unacked_restore_interval", "reauth_check_interval"):
            options.setdefault(name, self.timers)
        super().register_with_event_loop(connection, loop)
        cycle: Any = self.cycle
        # It fires each second, and no option of the transport sets its interval.
        cycle._binding_expiry_tref.cancel()
        cycle._binding_expiry_tref = loop.call_repeatedly(
            self.timers, cycle.maybe_refresh_binding_expiry
        )

    # Every message passes it before it is decoded; nothing public does.
    def _deliver(self, message: Any, queue: str | None) -> None:
        headers = message["headers"]
        # Bench workers can write to this queue, and may start no other task of the site.
        if queue == EVENTS and not str(headers.get("task")).startswith(("runs.", "health.")):
            raise ValueError(f"{headers.get('task')!r} is not a task of the queue {queue}")
        # The task's own limit applies; one of a wrong type would end the worker.
        headers.pop("timelimit", None)
        # Whatever it says, it came from this queue: a token vouches for it, and a message that is
        # put back returns to it. With the tag of another message it would take that one's place.
        message["properties"]["delivery_info"].update(exchange="", routing_key=queue)
        message["properties"]["delivery_tag"] = str(uuid4())
        super()._deliver(message, queue)

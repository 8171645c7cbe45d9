"""Redis, the only broker: its address, and a transport that a malformed message does not end.

Where CELERY_BROKER_URL names none, `manage.py up` runs a private Redis that listens on a Unix
socket in the data directory.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import DataError

from webapp import env

LONGEST_SOCKET_PATH = 107  # bytes: what `sockaddr_un` of Linux holds, less its closing zero

CONTROL_EXCHANGE = "bench"  # of bench workers: the site's know none of their commands

# What kombu and Celery raise of a message that is none.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError, DataError)

log = logging.getLogger(__name__)


def socket_path(data: Path) -> Path:
    """Where the private Redis of a data directory listens.

    A path that is too long for a socket gives way to one below /tmp, the same for every process.
    """
    path = data.resolve() / "redis" / "redis.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    short = sha256(os.fsencode(path)).hexdigest()[:16]
    return Path(f"/tmp/assay-{os.geteuid()}-{short}/redis.sock")  # noqa: S108 (`up` checks it)


def url(data: Path) -> str:
    """CELERY_BROKER_URL, or the address of the private Redis of a data directory."""
    given = env.read().celery_broker_url.get_secret_value()
    return given or f"redis+socket://{quote(str(socket_path(data)))}"


def worker_user(name: str) -> str:
    """The user of Redis that a bench worker is."""
    return f"bench-{name}"


def worker_password(key: bytes) -> str:
    """That user's password: made of the worker's key, which it does not tell."""
    return hmac.new(key, b"redis", sha256).hexdigest()


def worker_url(data: Path, name: str, key: bytes) -> str:
    """The address for a bench worker: as its own user, where one over TCP names no password."""
    address = urlsplit(given := url(data))
    if address.scheme not in ("redis", "rediss") or address.password:
        return given
    host = address.netloc.rpartition("@")[2]
    user = f"{worker_user(name)}:{worker_password(key)}"
    return address._replace(netloc=f"{user}@{host}").geturl()


def worker_keys(name: str) -> dict[str, str]:
    """Where kombu keeps what a bench worker has taken: apart from everybody else's."""
    return {
        "unacked_key": f"unacked.{name}",
        "unacked_index_key": f"unacked_index.{name}",
        "unacked_mutex_key": f"unacked_mutex.{name}",
    }


class Channel(redis.Channel):
    """Logs and drops a message that is no message: not JSON, a list, a header of a wrong type.

    kombu and Celery raise out of the worker's loop there, which ends the worker.
    """

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


class Transport(redis.Transport):
    """kombu's Redis transport with that channel."""

    Channel = Channel

    def _deliver(self, message: Any, queue: str | None) -> None:
        # A task's own limit counts; one of a wrong type would end the worker when it is compared.
        message["headers"].pop("timelimit", None)
        super()._deliver(message, queue)


TRANSPORT_ALIASES["redis"] = "webapp.redis_broker:Transport"

"""Redis, the only broker: its address, and a transport that a malformed message does not end.

Where CELERY_BROKER_URL names none, `manage.py up` runs a private Redis that listens on a Unix
socket in the data directory.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kombu.transport import TRANSPORT_ALIASES, redis

from webapp import env

LONGEST_SOCKET_PATH = 107  # bytes: what `sockaddr_un` of Linux holds, less its closing zero

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
    given = env.read().broker_url.get_secret_value()
    return given or f"redis+socket://{quote(str(socket_path(data)))}"


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
        try:
            return handler()
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            log.warning("Malformed message dropped: %s: %.200s", type(error).__name__, error)
            return None


class Transport(redis.Transport):
    """kombu's Redis transport with that channel."""

    Channel = Channel


TRANSPORT_ALIASES["redis"] = "webapp.redis_broker:Transport"

"""Redis, the only broker: its address and its users.

Where CELERY_BROKER_URL names none, `manage.py up` runs a private Redis that listens on a Unix
socket in the data directory.
"""

from __future__ import annotations

import hmac
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from webapp import env

if TYPE_CHECKING:
    from celery import Celery

LONGEST_SOCKET_PATH = 107  # bytes: what `sockaddr_un` of Linux holds, less its closing zero

CONTROL_EXCHANGE = "bench"  # of bench workers: the site's know none of their commands


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


def configure(app: Celery) -> None:
    """Tell a Celery application what holds of every one here, our transport for Redis first.

    It is loaded at the first connection.
    """
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - commands that send nothing

    TRANSPORT_ALIASES["redis"] = "webapp.redis_transport:Transport"
    app.conf.update(
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # a benchmark goes on, however long the broker is away
        broker_channel_error_retry=True,  # as when its disk is full: Redis refuses every command
        accept_content=["json"],
        task_ignore_result=True,  # what a task did stands in the database
        worker_pool="prefork",  # solo would not answer control commands while a task runs
        worker_concurrency=1,
        worker_prefetch_multiplier=1,
    )


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

"""Redis, the only broker: its address and its users.

Where CELERY_BROKER_URL names none, `manage.py up` runs a private Redis that listens on a Unix
socket in the data directory.
"""

from __future__ import annotations

import hmac
import os
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from assay_common import env, outages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from celery import Celery
    from celery.apps.worker import Worker

LONGEST_SOCKET_PATH = 107  # bytes: what `sockaddr_un` of Linux holds, less its closing zero

CONTROL_EXCHANGE = "bench"  # for bench workers alone: the site's workers do not know its commands
EVENTS = "events"  # the one queue of the site that bench workers may put messages on


def socket_path(data: Path) -> Path:
    """Return the socket of a data directory's private Redis.

    If the path is too long for a socket, one below /tmp, the same for every process.
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
    """Set what all our Celery applications share, and our own transport for Redis.

    The transport is loaded at the first connection.
    """
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - commands that send nothing

    outages.log_once()
    TRANSPORT_ALIASES["redis"] = "assay_common.redis_transport:Transport"
    app.conf.update(
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # a benchmark goes on, however long the broker is down
        broker_channel_error_retry=True,  # as when its disk is full: Redis refuses every command
        accept_content=["json"],
        task_ignore_result=True,  # tasks store what they did in the database
        worker_pool="prefork",  # solo would not answer control commands while a task runs
        worker_concurrency=1,
        worker_prefetch_multiplier=1,
    )


def quiet_worker(worker: type[Worker], queues: Sequence[str]) -> type[Worker]:
    """A worker that needs no options: it serves `queues`, a child for each, unless told which.

    It says nothing to other workers: Celery's gossip, mingle and events need channels that our
    users of Redis do not have, and `/readyz` and the liveness file tell whether it is alive.
    """

    class Quiet(worker):  # type: ignore[misc, valid-type]  # celery has no types
        def __init__(self, app: Any = None, hostname: str | None = None, **options: Any) -> None:
            silent = dict.fromkeys(("without_gossip", "without_mingle", "without_heartbeat"), True)
            if not options.get("queues"):
                options["queues"] = list(queues)
                options["concurrency"] = options.get("concurrency") or len(queues)
            elif not hostname or hostname.startswith("celery@"):  # nobody has chosen a name
                hostname = f"{'-'.join(options['queues'])}@{gethostname()}"
            super().__init__(app, hostname, **options | silent)

    return Quiet


def worker_user(name: str) -> str:
    """The Redis user of a bench worker."""
    return f"bench-{name}"


def worker_password(key: bytes) -> str:
    """That user's password: derived from the worker's key, which it does not reveal."""
    return hmac.new(key, b"redis", sha256).hexdigest()


def worker_url(data: Path, name: str, key: bytes) -> str:
    """The broker's address for a bench worker: as its own user, unless a password is given."""
    address = urlsplit(given := url(data))
    if address.scheme not in ("redis", "rediss") or address.password:
        return given
    host = address.netloc.rpartition("@")[2]
    user = f"{worker_user(name)}:{worker_password(key)}"
    return address._replace(netloc=f"{user}@{host}").geturl()


def worker_keys(name: str) -> dict[str, str]:
    """The keys under which kombu stores the messages that a bench worker has taken: its own."""
    return {
        "unacked_key": f"unacked.{name}",
        "unacked_index_key": f"unacked_index.{name}",
        "unacked_mutex_key": f"unacked_mutex.{name}",
    }

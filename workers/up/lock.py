"""One `up` for a data directory: a lock that says who holds it, and at which address."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LockedError(Exception):
    """The data directory cannot be used; the message says why and what to do."""


class LockFile:
    """What a second `up` reads: the holder's process and address."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a+")

    def write(self, address: str) -> None:
        """Record that this process serves `address` ("" while it is not serving yet)."""
        self.file.seek(0)
        self.file.truncate()
        json.dump({"pid": os.getpid(), "address": address}, self.file)
        self.file.flush()

    def read(self) -> tuple[int, str]:
        """Pid and address of the process that holds the lock; (0, "") if it has not written."""
        self.file.seek(0)
        try:
            holder = json.load(self.file)
            return int(holder["pid"]), str(holder["address"])
        except (ValueError, KeyError, TypeError):
            return 0, ""


@contextmanager
def hold(path: Path) -> Iterator[LockFile]:
    """Hold a data directory for this process; LockedError, naming the holder, if another does.

    The kernel lets go of the lock with the process, however that ends: no lock is ever stale.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = LockFile(path)
    except OSError as error:
        raise LockedError(f"The data directory {path.parent} cannot be written: {error}") from error
    with file.file:
        try:
            fcntl.flock(file.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, address = file.read()
            where = f"at {address}" if address else "and still starting"
            raise LockedError(
                f"Assay is already running on {path.parent} (process {pid}) {where}.\n"
                "Stop it first, or choose another directory with --data."
            ) from None
        try:
            file.write("")
        except OSError as error:
            raise LockedError(f"{path.parent} takes no more: {error.strerror}.") from error
        yield file

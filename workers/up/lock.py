"""One `up` for a data directory: a lock that says who holds it, and at which address."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class LockedError(Exception):
    """The data directory cannot be used; the message says why and what to do."""


@contextmanager
def hold(path: Path) -> Iterator[Callable[[str], None]]:
    """Hold a data directory for this process; LockedError, naming the holder, if another does.

    Gives what records where the holder serves. The kernel lets go of the lock with the process,
    however that ends: no lock is ever stale.
    """
    file = path.open("a+")  # its folder was made when the settings were read

    def record(where: str) -> None:
        file.seek(0)
        file.truncate()
        file.write(f"(process {os.getpid()}) {where}")
        file.flush()

    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(
                f"Assay is already running on {path.parent} {path.read_text()}.\n"
                "Stop it first, or choose another directory with --data."
            ) from None
        try:
            record("and still starting")
        except OSError as error:
            raise LockedError(f"{path.parent} takes no more: {error.strerror}.") from error
        yield record

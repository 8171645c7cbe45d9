"""Allows one `up` for each data directory, by a lock that names its holder and address."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class LockedError(Exception):
    """The data directory cannot be used; the message says why and what to do."""


@contextmanager
def hold(path: Path) -> Iterator[Callable[[str], None]]:
    """Lock a data directory for this process. Raises LockedError, which names the holder.

    Yields a function that records the address. The kernel releases the lock when the process
    ends, however it ends, so no lock is ever stale.
    """
    file = path.open("a+")  # its folder was made when the settings were read

    def record(where: str) -> None:
        file.truncate(0)
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

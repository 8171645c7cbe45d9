"""Files written whole or not at all, and files that a process holds while it lives."""

import fcntl
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace a file all at once: readers see the old content or the new, never half.

    A path that exists and is no plain file (a pipe, /dev/null) is written to: another file in its
    place would take it from everybody. Raises OSError.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # of mode 0600
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def hold(path: Path) -> None:
    """Hold a file, which is created if missing, until this process ends, however it ends."""
    fcntl.flock(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600), fcntl.LOCK_SH)


def is_held(path: Path) -> bool:
    """Return True if a living process holds the file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False

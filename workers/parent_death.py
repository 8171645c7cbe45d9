"""Processes that cannot outlive their parent."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 4, 15, 36


def prctl(option: int, value: int | bytes) -> None:
    """Set one of this process's attributes. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def die_with_parent(parent: int | None = None, sig: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send `sig` to this process when the one that made it dies.

    Call it in the child, before or after exec: the wish survives both. It fires when the parent's
    *thread* ends, so parents spawn from their main thread. No fork inherits it: every generation
    asks for itself. `parent` is the pid that must still be there; by default whoever is now.
    """
    parent = parent or os.getppid()
    prctl(PR_SET_PDEATHSIG, sig)
    if os.getppid() != parent:  # it died before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of whatever the processes below leave behind."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """The name that `ps -e`, `top` and `pgrep` show, of at most 15 characters."""
    prctl(PR_SET_NAME, name.encode())

"""Makes processes die with their parent."""

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
    """Have the kernel send `sig` to this process when its parent dies.

    Call it in the child, before or after exec. It fires when the parent's *thread* ends, so parents
    must fork in their main thread, and forks do not inherit it. `parent` is the expected parent's
    pid (default: the present one's); if it has died already, this process is killed at once.
    """
    parent = parent or os.getppid()
    prctl(PR_SET_PDEATHSIG, sig)
    if os.getppid() != parent:  # it died before the call
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of all orphaned descendants."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """Set the name that `ps -e`, `top` and `pgrep` show; at most 15 characters."""
    prctl(PR_SET_NAME, name.encode())

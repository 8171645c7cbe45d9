"""Processes that cannot outlive their parent (Linux; elsewhere the supervisor's stop must do)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process, at once, when the one that made it dies.

    Call it in the child, before or after exec: the wish survives both. It fires when the parent's
    *thread* ends, so parents spawn from their main thread. No fork inherits it: every generation
    asks for itself. `parent` is the pid that must still be there; by default whoever is now.
    """
    if sys.platform != "linux":
        return
    parent = parent or os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)

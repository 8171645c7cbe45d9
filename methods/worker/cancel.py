"""Passes cancels from a worker's main process to its child, in a page of shared memory.

The main process answers control commands while its child is busy, or has just been replaced. The
page is mapped before the fork, so every child sees it. Its first byte says stop; the rest is a ring
of cancelled tokens, so that a cancel that arrives before its job is not lost.
"""

import hashlib
import mmap

SLOTS, WIDTH = 64, 16


class CancelFlags:
    """Flags that one process writes and the processes forked from it read."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 2 + SLOTS * WIDTH)

    def cancel(self, token: str) -> None:
        """Cancel the attempt `token`, whether it has started or not."""
        if self.cancelled(token):
            return
        slot = self._page[1] % SLOTS
        start = 2 + slot * WIDTH
        self._page[start : start + WIDTH] = _digest(token)
        self._page[1] = (slot + 1) % SLOTS

    def cancelled(self, token: str) -> bool:
        """Return whether `token` is among the last attempts that were cancelled."""
        return self._page.find(_digest(token), 2) >= 0

    def stop(self) -> None:
        """End the current run, because the worker is shutting down."""
        self._page[0] = 1

    @property
    def stopping(self) -> bool:
        """Return whether the worker is shutting down."""
        return self._page[0] == 1


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()[:WIDTH]

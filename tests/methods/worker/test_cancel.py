"""Cancels that every child of a worker sees."""

from __future__ import annotations

import os
import time

from methods.worker.cancel import SLOTS, CancelFlags
from tests.processes import PATIENCE


def test_cancels_are_seen_by_forked_children() -> None:
    flags = CancelFlags()
    child = os.fork()
    if child == 0:
        end = time.monotonic() + PATIENCE
        while not (seen := flags.cancelled("token") and flags.stopping) and time.monotonic() < end:
            time.sleep(0.01)
        os._exit(0 if seen else 1)
    flags.cancel("token")
    flags.stop()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_cancels_forget_the_oldest_alone() -> None:
    flags = CancelFlags()
    for number in range(SLOTS + 1):
        flags.cancel(f"token-{number}")
        flags.cancel(f"token-{number}")
    assert not flags.cancelled("token-0")
    assert all(flags.cancelled(f"token-{number}") for number in range(1, SLOTS + 1))

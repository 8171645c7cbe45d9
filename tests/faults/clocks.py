"""A wall clock that is wrong, and one that steps, for processes of the site (libfaketime)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests import machine


def wrong_by(offset: str) -> dict[str, str]:
    """Environment in which a process sees another date (`+1d`) and time passes as usual."""
    command = [str(machine.FAKETIME.find()), "--exclude-monotonic", "-f", offset, "env", "-0"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    new = dict(line.split("=", 1) for line in said.split("\0") if line)
    # Shared memory of a process that has ended is no clock for another.
    fake = {k: v for k, v in new.items() if os.environ.get(k) != v and k != "FAKETIME_SHARED"}
    return fake | {"PYTHONPATH": str(Path(__file__).parent / "wrong_clock")}


def stepping(folder: Path) -> dict[str, str]:
    """The same, with the offset read from a file that `step` changes.

    Not for Redis, whose allocator asks for the time before libfaketime is ready to tell it.
    """
    folder.mkdir()
    step(folder, "+0")
    program = folder / "redis-server"
    program.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {machine.REDIS.find()} "$@"\n')
    program.chmod(0o700)
    fake = wrong_by("+0")
    del fake["FAKETIME"]
    return fake | {
        "FAKETIME_TIMESTAMP_FILE": str(folder / "offset"),
        "FAKETIME_NO_CACHE": "1",  # processes of one machine have one clock
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
    }


def step(folder: Path, offset: str) -> None:
    """Set the clock of the processes that were started with this folder."""
    draft = folder / "new"
    draft.write_text(f"{offset}\n")
    draft.replace(folder / "offset")

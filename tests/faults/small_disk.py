"""A disk that a test can fill: a tmpfs of its own, where this user may mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MIB = 128
WHY_NOT = "needs the right to mount a small disk: run it as root"


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mount a disk of 128 MiB at `folder`; whether that was allowed."""
    options = f"size={MIB}m,mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "assay-test", str(folder)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no room for one more byte."""
    size = 2**20
    with (folder / "ballast").open("ab", buffering=0) as ballast:
        while size:
            try:
                ballast.write(b"\0" * size)
            except OSError:
                size //= 2


def make_room(folder: Path) -> None:
    """Give back what `fill` took."""
    (folder / "ballast").unlink(missing_ok=True)


def has_no_room(folder: Path) -> bool:
    """Return whether the disk is full since `fill`."""
    return (folder / "ballast").exists()

"""Limits and counters of the control groups that this process belongs to, of versions 1 and 2.

A container's limit may stand at any level, so every group counts, from the process's own to the
root.
"""

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")  # lines of `number:controllers:path`
# The limit, the use, and the parts of the use that the kernel gives back when it needs memory.
_MEMORY = (
    ("memory.max", "memory.current", ("active_file ", "inactive_file ")),
    (
        *("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ("total_active_file ", "total_inactive_file "),
    ),
)


def values(file: str, prefix: str = "") -> list[int]:
    """Return the number after ``prefix`` in a file of each group that has it, innermost first."""
    numbers = (_value(folder, file, prefix) for folder in _folders())
    return [number for number in numbers if number is not None]


def memory_limit() -> int | None:
    """Return the smallest limit of memory, in bytes."""
    return min((limit for name, _, _ in _MEMORY for limit in values(name)), default=None)


def free_memory() -> int | None:
    """Return the bytes that can be allocated before a limit is reached; the page cache is free."""
    return min(_free_memory(), default=None)


def processor_quota() -> float:
    """Return the processors that may be used at once; infinity without a limit."""
    return min(map(_quota, _folders()), default=math.inf)


def _free_memory() -> Iterator[int]:
    for folder in _folders():
        for limit_file, use_file, reclaimable in _MEMORY:
            limit, use = _value(folder, limit_file), _value(folder, use_file)
            if limit is not None and use is not None:
                cache = sum(_value(folder, "memory.stat", name) or 0 for name in reclaimable)
                yield max(0, limit - max(0, use - cache))


def _quota(folder: Path) -> float:
    with suppress(OSError, ValueError):
        most, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return math.inf if most == "max" else int(most) / int(period)
    time, period_of_1 = _value(folder, "cpu.cfs_quota_us"), _value(folder, "cpu.cfs_period_us")
    return time / period_of_1 if time and period_of_1 else math.inf


def _folders() -> Iterator[Path]:
    """Yield the folders of this process's groups for memory and processors."""
    try:
        lines = MEMBERSHIP.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # the group lies outside what this process may see
            parts = []
        for controller in {"", "memory", "cpu"} & set(controllers.split(",")):
            for end in range(len(parts), -1, -1):
                yield Path(MOUNT, controller, *parts[:end])


def _value(folder: Path, file: str, prefix: str = "") -> int | None:
    try:
        text = (folder / file).read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(rf"(?m)^{prefix}(\d+)$", text)
    return int(match[1]) if match else None

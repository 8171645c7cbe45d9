"""Limits of control groups at every level, in both versions; the page cache is free memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from methods.measure import control_groups, environment, memory

GIB = 2**30
NESTED = "0::/system.slice/worker.service"
CHARGED = {
    "memory.current": f"{3 * GIB}\n",
    "memory.stat": f"anon {GIB}\nfile {2 * GIB}\nactive_file {GIB // 2}\ninactive_file {GIB}\n",
}
FIRST_VERSION = {
    "memory.limit_in_bytes": f"{4 * GIB}\n",
    "memory.usage_in_bytes": f"{3 * GIB}\n",
    "memory.stat": f"inactive_file 1\ntotal_active_file {GIB}\ntotal_inactive_file {GIB}\n",
}


def folders(root: Path, monkeypatch: pytest.MonkeyPatch, membership: str) -> Path:
    """A mount of control groups, and this process's membership."""
    (root / "cgroup").write_text(membership)
    monkeypatch.setattr(control_groups, "MEMBERSHIP", root / "cgroup")
    monkeypatch.setattr(control_groups, "MOUNT", root / "mount")
    return root / "mount"


def write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("membership", "folder", "files", "free"),
    [
        # A limit of this group, of its parent, and of a container's root.
        (NESTED, "system.slice/worker.service", {"memory.max": f"{4 * GIB}"}, 2.5),
        (NESTED, "system.slice", {"memory.max": f"{4 * GIB}"}, 2.5),
        ("0::/", ".", {"memory.max": f"{4 * GIB}"}, 2.5),
        # The group's path of the host, which the container does not see.
        ("0::/../../docker/a", ".", {"memory.max": f"{4 * GIB}"}, 2.5),
        ("0::/docker/a", ".", {"memory.max": f"{4 * GIB}"}, 2.5),
        ("4:memory:/docker/a\n0::/", "memory/docker/a", FIRST_VERSION, 3),
        ("4:memory:/docker/a\n0::/", "memory", FIRST_VERSION, 3),
        # More used than allowed, for a moment; no limit; another process's group.
        ("0::/", ".", {"memory.max": f"{GIB}"}, 0),
        ("0::/", ".", {"memory.max": "max"}, None),
        ("0::/", "other.slice", {"memory.max": f"{GIB}"}, None),
        ("", ".", {"memory.max": f"{GIB}"}, None),
    ],
)
def test_free_memory_is_below_every_limit(  # noqa: PLR0917 - a scene and its answer
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    membership: str,
    folder: str,
    files: Mapping[str, str],
    free: float | None,
) -> None:
    mount = folders(tmp_path, monkeypatch, membership)
    write(mount / folder, {**CHARGED, **files})
    assert control_groups.free_memory() == (None if free is None else free * GIB)


def test_the_smallest_limit_counts_and_the_machine_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = folders(tmp_path, monkeypatch, NESTED)
    for folder, limit in (("system.slice/worker.service", 2**60), ("system.slice", 7 << 20)):
        write(mount / folder, {"memory.max": str(limit), "memory.current": "0"})
    assert control_groups.memory_limit() == 7 << 20
    assert memory.available() == 7 << 20
    write(mount / "system.slice", {"memory.max": "max"})
    assert memory.available() <= psutil.virtual_memory().total


def test_counters_are_read_from_the_innermost_group_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = folders(tmp_path, monkeypatch, NESTED)
    write(mount / "system.slice/worker.service", {"memory.events": "oom 4\noom_kill 3\n"})
    write(mount / "system.slice", {"memory.events": "oom 9\noom_kill 8\n"})
    assert control_groups.values("memory.events", "oom_kill ") == [3, 8]


@pytest.mark.parametrize(
    ("files", "processors"),
    [
        ({"cpu.max": "200000 100000\n"}, 2.0),
        ({"system.slice/cpu.max": "150000 100000\n", "cpu.max": "max 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, float("inf")),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, float("inf")),
        ({"cpu.max": "damaged"}, float("inf")),
        ({}, float("inf")),
    ],
)
def test_the_quota_of_processors_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], processors: float
) -> None:
    mount = folders(tmp_path, monkeypatch, f"2:cpu,cpuacct:/docker/a\n{NESTED}")
    for name, text in files.items():
        write((mount / name).parent, {Path(name).name: text})
    assert control_groups.processor_quota() == processors


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (1.5, 2), (float("inf"), 64)])
def test_cores_are_those_that_the_quota_allows(
    monkeypatch: pytest.MonkeyPatch, quota: float, cores: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(control_groups, "processor_quota", lambda: quota)
    assert environment.cores() == cores
    assert environment.processors().endswith(f", {cores} cores")

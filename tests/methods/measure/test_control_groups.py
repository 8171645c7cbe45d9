"""A container's quota counts as processors, not the machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from methods.measure import environment


@pytest.mark.parametrize(
    ("files", "processors"),
    [
        ({"cpu.max": "200000 100000\n"}, 2.0),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, float("inf")),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, float("inf")),
        ({"cpu.max": "damaged"}, float("inf")),
        ({}, float("inf")),
    ],
)
def test_the_quota_is_read(tmp_path: Path, files: dict[str, str], processors: float) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert environment._quota(tmp_path) == processors


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (1.5, 2), (float("inf"), 64)])
def test_cores_are_those_that_the_quota_allows(
    monkeypatch: pytest.MonkeyPatch, quota: float, cores: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(environment, "_quota", lambda: quota)
    assert environment.cores() == cores
    assert environment.processors().endswith(f", {cores} cores")

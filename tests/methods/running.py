"""Benchmarks in the process of the test: what fresh ones add has tests of its own."""

from __future__ import annotations

from collections.abc import Mapping

from methods import registry, runner
from methods.protocol import Strict


def run_here(
    name: str, changes: Mapping[str, object], preset: str = "smoke"
) -> tuple[int, list[Strict]]:
    """The exit code and the events of a benchmark at a preset with some parameters changed."""
    method, benchmark = registry.find(name)
    params = benchmark.resolve(preset, dict(changes))
    events: list[Strict] = []
    code = runner.run(
        method,
        benchmark,
        params,
        device="cpu",
        seed=0,
        preset=preset,
        emit=events.append,
        process=0,
    )
    return code, events

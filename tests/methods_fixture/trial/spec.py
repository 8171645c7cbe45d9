"""A method for tests: it measures the clock, honestly, or misbehaves in the way it is asked to."""

from __future__ import annotations

from typing import Literal

from methods.spec import Benchmark, Method, Params, parameter

Fault = Literal[
    "ignores_term",
    "forks_grandchildren",
    "fills_log",
    "writes_garbage",
    "exits_silently",
    "eats_memory",
    "prints_environment",
    "raises",
    "crashes",
    "sends_too_much",
    "claims_another_check",
    "endless_line",
    "writes_elsewhere",
]


class Sleep(Params):
    """The duration, and the number of steps."""

    seconds: float = parameter(0.5, "how long to take", unit="s", ge=0, le=3600)
    steps: int = parameter(5, "points to measure", ge=1, le=1000)
    words: str = parameter("", "what to write to the log", max_length=200)


class Misbehave(Params):
    """The fault, and its duration."""

    how: Fault = parameter("raises", "the fault")
    seconds: float = parameter(3600.0, "how long it stays", unit="s", ge=0, le=3600)


METHOD = Method(
    slug="trial",
    title="Trial",
    description="Measures how long a sleep takes.",
    benchmarks=(
        Benchmark(
            slug="sleep",
            title="Sleep",
            description="The time that a sleep takes.",
            params=Sleep,
            presets={"smoke": Sleep(), "quick": Sleep(), "full": Sleep()},
            entry="bench:sleep",
        ),
        Benchmark(
            slug="misbehave",
            title="Misbehave",
            description="Fails in one of the ways that a benchmark can.",
            params=Misbehave,
            presets={"smoke": Misbehave(), "full": Misbehave()},
            entry="bench:misbehave",
            devices=("cpu",),
        ),
    ),
)

"""How often intervals cover and verdicts are false, simulated: ``python -m benchmarks.coverage``.

Two variants with a known ratio are "measured" by simulated processes through the very functions
that real measurements go through (`statistics` and `processes` in `methods.measure`): five
interleaved blocks a process, then further processes until a look finds every interval narrow or
there are four times as many. It is a simulation: it does not depend on the machine and is the same
each time.

Coverage is the share of charts whose intervals all hold the true ratio; "different" is the share of
charts of equal variants in which any is called faster or slower. Both are shown for one comparison
of five processes, for one and for a chart of 12 with optional stopping.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.figures import arguments
from methods.measure.processes import MOST, confidence_at
from methods.measure.statistics import block_ratio, geometric_interval

BLOCKS, PROCESSES, PRECISION = 5, 5, 0.03
Rng = np.random.Generator
Logs = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Machine:
    """What a machine does to times: added to the logarithms of one process's (2, blocks) times."""

    name: str
    noise: Callable[[Rng], Logs]
    process: float = 0.0  # standard deviation of a variant's effect of the process


def _normal(rng: Rng) -> Logs:
    return rng.normal(0, 0.02, (2, BLOCKS))


def _drift(rng: Rng) -> Logs:
    """The machine's speed wanders by 3 % a block; blocks are interleaved, so both meet it."""
    return _normal(rng) + np.cumsum(rng.normal(0, 0.03, BLOCKS))


def _spikes(rng: Rng) -> Logs:
    """One sample in ten takes much longer."""
    return _normal(rng) + (rng.random((2, BLOCKS)) < 0.1) * rng.exponential(0.7, (2, BLOCKS))


def _throttle(rng: Rng) -> Logs:
    """In half of the processes the clock falls by a quarter somewhere between two samples."""
    logs = _normal(rng)
    if rng.random() < 0.5:
        at = int(rng.integers(0, 2 * BLOCKS))
        late = at <= np.arange(2 * BLOCKS).reshape(BLOCKS, 2).T  # the order in which samples came
        logs = logs + 0.25 * late
    return logs


MACHINES = (
    Machine("lognormal noise of 2 %", _normal),
    Machine("and drift", _drift),
    Machine("and spikes", _spikes),
    Machine("and throttle steps", _throttle),
    Machine("and process effects of 1 %", _normal, 0.01),
    Machine("and process effects of 3 %", _normal, 0.03),
    Machine("and process effects of 5 %", _normal, 0.05),
)


def one_process(machine: Machine, rng: Rng, ratio: float) -> float:
    """The ratio that one process measures, by the code that real processes run."""
    logs = machine.noise(rng) + rng.normal(0, machine.process, (2, 1))
    ours, baseline = np.exp(logs)
    found = block_ratio([[x / ratio] for x in ours], [[x] for x in baseline], "lower")
    assert found is not None
    return found


def simulate(
    machine: Machine, *, charts: int, comparisons: int, stopping: bool, ratio: float, seed: int
) -> float:
    """Share of charts whose intervals all hold the true ratio."""
    rng, good = np.random.default_rng(seed), 0
    for _ in range(charts):
        runs = [
            [one_process(machine, rng, ratio) for _ in range(PROCESSES)] for _ in range(comparisons)
        ]
        while True:
            last = not stopping or len(runs[0]) >= MOST * PROCESSES
            if confidence := confidence_at(len(runs[0]), PROCESSES, last=last):
                found = [geometric_interval(one, comparisons, confidence) for one in runs]
                widest = max(math.log(one.high / one.low) / 2 for one in found)
                if last or widest <= PRECISION:
                    break
            for one in runs:
                one.append(one_process(machine, rng, ratio))
        good += all(one.low <= ratio <= one.high for one in found)
    return good / charts


def main() -> None:
    """Print the table as it stands in docs/measuring.md."""
    charts = arguments(__doc__, charts=1000).parse_args().charts
    cases = [(1, False), (1, True), (12, True)]
    heads = ["one, 5 processes", "one, stopped", "12, stopped"]
    print("| simulated machine | " + " | ".join(heads) + " |")
    print("|---|" + "---|" * len(heads))
    for seed, machine in enumerate(MACHINES):
        cells = []
        for comparisons, stopping in cases:
            count = max(1, charts // 2) if comparisons > 1 else charts
            sizes = {"charts": count, "comparisons": comparisons, "seed": seed}
            covered, equal = (
                simulate(machine, stopping=stopping, ratio=ratio, **sizes) for ratio in (1.3, 1.0)
            )
            cells.append(f"{100 * covered:.1f} / {100 * (1 - equal):.1f}")
        print(f"| {machine.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

"""Simulate how often intervals cover and verdicts are false.

    python -m tests.methods.measure.coverage

Two variants with a known ratio are "measured" by simulated processes through the very functions
that real measurements go through (`statistics` and `processes` in `methods.measure`): five
interleaved blocks a process, then further processes until a look finds every interval narrow or
there are four times as many. It is a simulation: it does not depend on the machine and is the same
each time.

Coverage is the share of charts whose intervals all hold the true ratio; "different" is the share of
charts of equal variants in which any is called faster or slower. Both are shown for one comparison
of five processes, for one and for a chart of 12 with optional stopping.

A second table shows how often each verdict is given to claims that are true, half true (half of the
claimed gain is there) and false (none is), by the code that stops measuring and that judges.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from django.conf import settings

from benchmarks.figures import arguments
from methods.measure.processes import MOST, confidence_at
from methods.measure.statistics import block_ratio, geometric_interval, point_of_runs
from methods.spec import Answer, Claim, Comparable
from webapp.catalog.verdicts import Word, judge

BLOCKS, PROCESSES, PRECISION = 5, 5, 0.03
Rng = np.random.Generator
Logs = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Machine:
    """Noise of a machine, added to the logarithms of one process's (2, blocks) times."""

    name: str
    noise: Callable[[Rng], Logs]
    process: float = 0.0  # standard deviation of a variant's effect of the process
    modes: float = 0.0  # how much slower a variant is in half of the processes, by chance
    memory: float = 0.0  # correlation of the effects of one process with those of the one before

    def effects(self, rng: Rng, before: Logs | None) -> Logs:
        """A process's effects on both variants, (2, 1)."""
        fresh = rng.normal(0, self.process, (2, 1)) + self.modes * rng.integers(0, 2, (2, 1))
        if before is None:
            return fresh
        return self.memory * before + math.sqrt(1 - self.memory**2) * fresh


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
    Machine("and two modes 6 % apart", _normal, modes=0.06),
    Machine("and effects of 3 % that depend on the one before (0.5)", _normal, 0.03, memory=0.5),
)
INDEPENDENT = MACHINES[:-1]  # what intervals promise to cover


def processes(machine: Machine, rng: Rng, ratio: float) -> Iterator[float]:
    """The ratio that each process measures, by the code that real processes run."""
    effects = None
    while True:
        effects = machine.effects(rng, effects)
        ours, baseline = np.exp(machine.noise(rng) + effects)
        found = block_ratio([[x / ratio] for x in ours], [[x] for x in baseline], "lower")
        assert found is not None
        yield found


def simulate(
    machine: Machine, *, charts: int, comparisons: int, stopping: bool, ratio: float, seed: int
) -> float:
    """Share of charts whose intervals all hold the true ratio."""
    rng, good = np.random.default_rng(seed), 0
    for _ in range(charts):
        told = [processes(machine, rng, ratio) for _ in range(comparisons)]
        runs = [list(itertools.islice(one, PROCESSES)) for one in told]
        while True:
            last = not stopping or len(runs[0]) >= MOST * PROCESSES
            if confidence := confidence_at(len(runs[0]), PROCESSES, last=last):
                found = [geometric_interval(one, comparisons, confidence) for one in runs]
                widest = max(math.log(one.high / one.low) / 2 for one in found)
                if last or widest <= PRECISION:
                    break
            for one, more in zip(runs, told, strict=True):
                one.append(next(more))
        good += all(one.low <= ratio <= one.high for one in found)
    return good / charts


def verdicts(machine: Machine, claimed: float, share: float, *, charts: int) -> Counter[Word]:
    """The frequency of each verdict on a claim when a `share` of its gain is real."""
    rng, words = np.random.default_rng(round(100 * claimed)), Counter[Word]()
    answer = Answer(benchmark="b", series="s", variant="ours", quantity="ratio")
    same = Comparable.SAME
    claim = Claim(id="c", text="t", metric="m", value=claimed, comparable=same, answer=answer)
    for _ in range(charts):
        told = processes(machine, rng, 1 + share * (claimed - 1))
        runs = list(itertools.islice(told, PROCESSES))
        while len(runs) < MOST * PROCESSES:
            if looked := confidence_at(len(runs), PROCESSES, last=False):
                found = geometric_interval(runs, confidence=looked)
                narrow = math.log(found.high / found.low) / 2 <= PRECISION
                if narrow and claim.holds(found.low, found.high) is not None:
                    break
            runs.append(next(told))
        times = [1 / ratio for ratio in runs]
        point = point_of_runs("ours", 1.0, times, times, runs, of="processes")
        if word := judge(claim, point).word:
            words[word] += 1
    return words


WORDS = (Word.REPRODUCED, Word.PARTLY, Word.NOT, Word.INCONCLUSIVE)
KINDS = {"true": 1.0, "half true": 0.5, "false": 0.0}


def print_verdicts(charts: int) -> None:
    """The table of verdicts, in per cent: reproduced / partly / not reproduced / inconclusive."""
    print("| simulated machine, claim | " + " | ".join(KINDS) + " |")
    print("|---|" + "---|" * len(KINDS))
    for machine in MACHINES[-4:]:
        for claimed in (1.1, 1.2, 1.5, 2.0, 4.0, 8.0):
            cells = []
            for share in KINDS.values():
                words = verdicts(machine, claimed, share, charts=charts)
                cells.append(" / ".join(f"{100 * words[word] / charts:.0f}" for word in WORDS))
            name = machine.name.removeprefix("and ")
            print(f"| {name}, {claimed:g}\u00d7 | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the tables as they stand in docs/measuring.md."""
    charts = arguments(__doc__, charts=1000).parse_args().charts
    settings.configure(USE_I18N=False)  # the site's words for verdicts, in English
    print_verdicts(charts)
    print()
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

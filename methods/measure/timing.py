"""Time several variants against each other so that disturbances of the machine cancel.

Variants run in blocks: every block times each variant once, in an order that changes from block to
block, so that drift, other load and clock changes meet all of them alike. A sample is the mean
time of so many consecutive calls as are long against the clock; every sample is kept.

On the CPU the clock is the wall's, or, for one thread on a machine shared with others, the
process's own processor time. On CUDA a sample is the time between two events on the current
stream, after a synchronise, so that only device work counts; caches stay as the last call left
them.
"""

import itertools
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from ..context import Context, OpenSeries
from ..params import TimedParams
from ..protocol import Flag, MachineState, Point
from . import environment
from .statistics import MIN_BLOCKS, point

Variants = Mapping[str, Callable[[], object]]

WARM_UP_TOLERANCE = 0.05  # between the halves of a window of so many calls and seconds at least
WINDOW, WINDOW_S = 10, 0.3
SHORTEST_S = 1e-9  # a call that waits may take no processor time at all
REFILLED_S = 1.0  # of such a call the filling of its caches is less than a hundredth
BUSY, STOLEN = 0.10, 0.01  # shares of our processors' time
# Unicode has two signs for micro, which look alike.
_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "\u03bcs": 1e6, "ns": 1e9}
_CPU_CLOCKS = {"wall": time.perf_counter, "process": time.process_time}

Clock = Callable[[Callable[[], object], int], float]


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds a call: for each variant its blocks, for each block its samples.

    ``flags`` are doubts about all of them, ``unsteady`` the variants whose warm-up never ended.
    """

    blocks: Mapping[str, tuple[tuple[float, ...], ...]]
    flags: tuple[Flag, ...]
    unsteady: frozenset[str]

    def points(
        self,
        x: float | str,
        *,
        baseline: str | None = None,
        unit: str = "ms",
        work: float | None = None,
    ) -> list[Point]:
        """A point for each variant: time, or with ``work`` (items a call) items a second.

        Raises ValueError for a unit that is none of time.
        """
        if work is None and unit not in _UNITS:
            raise ValueError(f"a time is in s, ms, µs or ns, not in {unit!r}")

        def converted(variant: str) -> list[list[float]]:
            blocks = self.blocks[variant]
            if work is not None:
                return [[work / max(seconds, SHORTEST_S) for seconds in block] for block in blocks]
            return [[seconds * _UNITS[unit] for seconds in block] for block in blocks]

        return [
            point(
                variant,
                x,
                converted(variant),
                direction="lower" if work is None else "higher",
                baseline=None if baseline in (None, variant) else converted(baseline),
                # What is held against an unsteady baseline is in doubt like the baseline.
                flags=self.flags + (Flag.UNSTEADY,) * bool(self.unsteady & {variant, baseline}),
            )
            for variant in self.blocks
        ]


def compare(
    variants: Variants,
    *,
    device: str = "cpu",
    seed: int = 0,
    blocks: int = 10,
    samples: int = 3,
    min_sample_s: float = 0.01,
    max_warm_up_s: float = 10.0,
    cpu_clock: Literal["wall", "process"] = "wall",
    on_block: Callable[[int, int], None] | None = None,
) -> Timings:
    """Time ``variants`` (name to a call without arguments) in interleaved blocks.

    Each variant is called first until its time has no trend (`warm_up`, at most
    ``max_warm_up_s``). A sample repeats the call until it lasts ``min_sample_s``. ``on_block``
    is called with the blocks done and the total. Raises ValueError for fewer than five blocks, for
    no variant and for process time of several threads.
    """
    if blocks < MIN_BLOCKS:
        raise ValueError(f"at least {MIN_BLOCKS} blocks are needed for an interval, not {blocks}")
    if not variants or samples < 1:
        raise ValueError("there is nothing to time")
    if device == "cpu" and cpu_clock == "process" and torch.get_num_threads() > 1:
        raise ValueError("process time adds threads up: call torch.set_num_threads(1) first")
    clock: Clock = _cuda_clock if device == "cuda" else partial(_cpu_clock, _CPU_CLOCKS[cpu_clock])
    warm = {
        name: warm_up(partial(clock, call, 1), max_warm_up_s) for name, call in variants.items()
    }  # the least time of a call, and whether steady
    batches = {
        name: 1 if warm[name][0] >= min_sample_s else batch_size(clock, call, min_sample_s)
        for name, call in variants.items()
    }
    before, since = environment.machine_state(device), environment.CpuTimes.now()
    measured: dict[str, list[tuple[float, ...]]] = {name: [] for name in variants}
    rng = random.Random(seed)
    for block in range(blocks):
        for name in rng.sample(list(variants), len(variants)):
            least, _ = warm[name]
            if least < REFILLED_S:  # its caches were taken over by the variant before it
                clock(variants[name], 1)
            seconds = (clock(variants[name], batches[name]) for _ in range(samples))
            measured[name].append(tuple(seconds))
        if on_block:
            on_block(block + 1, blocks)
    after = environment.machine_state(device, since)
    return Timings(
        blocks={name: tuple(found) for name, found in measured.items()},
        flags=machine_flags(before, after),
        unsteady=frozenset(name for name, (_, steady) in warm.items() if not steady),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Variants to be timed against each other, as one x of a series.

    ``build`` makes the calls when their turn comes, after checking that they are right; what is
    counted of them, as bytes, it adds to a series of its own. With ``work``, items a call, the
    series shows items a second. ``also`` are other places of the same: measured once, shown there.
    """

    series: OpenSeries
    x: float | str
    build: Callable[[], Variants]
    work: float | None = None
    also: Sequence[tuple[OpenSeries, float | str]] = ()


def time_all(
    ctx: Context,
    comparisons: Iterable[Comparison],
    params: TimedParams,
    *,
    baseline: str,
    samples: int = 1,
) -> None:
    """Time every comparison and add its points, with progress.

    One thread on the CPU is timed by its processor time, which others on the machine disturb less.
    """
    todo = list(comparisons)
    alone = ctx.device == "cpu" and torch.get_num_threads() == 1
    for number, one in enumerate(todo):
        where = one.series.at(one.x)

        def on_block(done: int, of: int, number: int = number, where: str = where) -> None:
            ctx.progress(number + done / of, len(todo), where)

        on_block(0, params.blocks)
        timings = compare(
            one.build(),
            device=ctx.device,
            seed=ctx.seed + number,
            blocks=params.blocks,
            samples=samples,
            max_warm_up_s=params.max_warm_up_s,
            cpu_clock="process" if alone else "wall",
            on_block=on_block,
        )
        against = baseline if baseline in timings.blocks else None  # a part has no whole beside it
        for series, x in ((one.series, one.x), *one.also):
            series.add(*timings.points(x, baseline=against, unit=series.unit, work=one.work))


def warm_up(sample: Callable[[], float], limit_s: float = 10.0) -> tuple[float, bool]:
    """Call ``sample`` until its times have no trend: the least of the last ones, and whether so.

    There is none where the medians of the earlier and the later half of the last calls lie within
    5 %, or where one half lies within the other: slow calls are noise, which the interval shows.
    The last calls are at least ten and fill a third of a second: short ones scatter more than they
    drift, and a processor takes its time to choose a clock rate. Stops at ``limit_s`` and judges by
    what there is then: of calls that take as long, two.
    """
    begun = time.perf_counter()
    recent: deque[float] = deque()
    seconds, judged = 0.0, 0
    for number in itertools.count(1):
        recent.append(sample())
        seconds += recent[-1]
        while len(recent) > WINDOW and seconds - recent[0] >= WINDOW_S:
            seconds -= recent.popleft()
        late = time.perf_counter() - begun > limit_s
        full = len(recent) >= WINDOW and seconds >= WINDOW_S
        due = number - judged >= len(recent) / WINDOW  # a window of many calls is not sorted anew
        if (full and due) or (late and len(recent) > 1):
            middle, judged = len(recent) // 2, number
            calls = list(recent)
            steady = _steady(calls[:middle], calls[middle:])
            if steady or late:
                return min(calls), steady
    raise AssertionError  # itertools.count has no end


def batch_size(clock: Clock, call: Callable[[], object], min_sample_s: float) -> int:
    """Return how many consecutive calls last ``min_sample_s``: 1, 2, 5, 10, 20 and so on.

    Batches grow as those of ``timeit`` do, until one is measured to last. One that took ten times
    as long by the wall's clock ends this too: a call that waits takes hardly any processor time.
    """
    power = 1
    while True:
        for step in (1, 2, 5):
            calls, begun = step * power, time.perf_counter()
            seconds = clock(call, calls) * calls
            if seconds >= min_sample_s or time.perf_counter() - begun >= 10 * min_sample_s:
                return calls
        power *= 10


def _steady(earlier: Sequence[float], later: Sequence[float]) -> bool:
    """True if there is no trend from the earlier to the later calls."""
    was, now = statistics.median(earlier), statistics.median(later)
    if max(was, now) <= min(was, now) * (1 + WARM_UP_TOLERANCE):
        return True
    if len(earlier) < WINDOW // 2:
        return False
    # Beyond 5 % apart, and three quarters of one half lie beyond the middle of the other.
    beyond = sum((one > was) == (now > was) for one in later)
    before = sum((one > now) == (was > now) for one in earlier)
    return min(beyond / len(later), before / len(earlier)) < 0.75


def machine_flags(before: MachineState, after: MachineState) -> tuple[Flag, ...]:
    """Doubts about the machine: throttling, others on its processors or on the device."""
    clocks = (before.gpu_mhz, after.gpu_mhz), (before.cpu_mhz, after.cpu_mhz)
    slower = any(was and now and now < 0.9 * was for was, now in clocks)
    quota = (after.cpu_throttled_s or 0) > 0
    doubts = {
        Flag.BUSY: (after.cpu_elsewhere or 0) > BUSY,
        Flag.STOLEN: (after.cpu_stolen or 0) > STOLEN,
        Flag.THROTTLED: slower or quota or before.gpu_throttled or after.gpu_throttled,
        Flag.SHARED: before.gpu_other_processes or after.gpu_other_processes,
    }
    return tuple(flag for flag, raised in doubts.items() if raised)


def _cpu_clock(now: Callable[[], float], call: Callable[[], object], calls: int) -> float:
    """Seconds a call by the clock ``now``."""
    begin = now()
    for _ in range(calls):
        call()
    return (now() - begin) / calls


def _cuda_clock(call: Callable[[], object], calls: int) -> float:
    """The same between two events on the current stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / calls

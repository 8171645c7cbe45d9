"""From samples to statements: estimates, intervals, ratios, doubts and verdicts.

The unit of everything here is the *run*: one fresh process that measured, or one seed that was
trained with. What differs between processes (where memory lies, which clock the processor chose)
is often larger than what differs within one, so only runs are independent; blocks of one process
are not. A process gives one number a variant, the median of its blocks, and one a comparison, the
median over blocks of the ratio to the baseline's same block, which cancels drift and ignores
spikes. The estimate is the geometric mean over processes (the mean over seeds), its interval
Student's on the logarithms (on the values).

The intervals of one chart hold together: with m comparisons each is drawn at the confidence
0.95^(1/m) (Sidak), so that all of them cover in 95 of 100 charts. Where measuring may end early
they are drawn wider (see `processes`). ``python -m tests.methods.measure.coverage`` simulates how
often they hold.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from assay_common import student

from ..protocol import Flag, Point, Ratio, Series, Verdict
from ..protocol.base import Where
from ..spec import Direction

MIN_BLOCKS = 5
MIN_RUNS = {"processes": 5, "seeds": 3, "": 0}
CONFIDENCE = 0.95
VARIATION_LIMIT = 0.10
DRIFT_LIMIT = 0.05
DRIFT_CORRELATION = 0.7  # with time, so that scatter is not called drift

Blocks = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval."""

    value: float
    low: float
    high: float


def mean_interval(
    values: Sequence[float], comparisons: int = 1, confidence: float = CONFIDENCE
) -> Interval:
    """The mean of independent values; `comparisons` such Student's intervals hold together.

    One value alone has no interval: low and high are then the value itself. Raises ValueError for
    no value or NaN.
    """
    data = np.asarray(values, dtype=np.float64)  # (n,)
    if data.size == 0 or not np.isfinite(data).all():
        raise ValueError("an interval needs finite values")
    mean, n = float(data.mean()), data.size
    if n == 1:
        return Interval(mean, mean, mean)
    error = float(data.std(ddof=1)) / math.sqrt(n)
    half = student.quantile(n - 1, confidence ** (1 / comparisons)) * error
    return Interval(mean, mean - half, mean + half)


def geometric_interval(
    values: Sequence[float], comparisons: int = 1, confidence: float = CONFIDENCE
) -> Interval:
    """The geometric mean of positive values, with the interval of their logarithms."""
    logs = mean_interval([math.log(value) for value in values], comparisons, confidence)
    return Interval(math.exp(logs.value), math.exp(logs.low), math.exp(logs.high))


def block_medians(blocks: Blocks) -> list[float]:
    """The median of each block's samples."""
    return [float(median(block)) for block in blocks]


def block_ratio(blocks: Blocks, baseline: Blocks, direction: Direction) -> float | None:
    """Return the ratio to the baseline, above 1 is better: the median over blocks.

    Block b is compared with the baseline's block b. None unless all are positive; raises
    ValueError when they cannot be paired.
    """
    ours, theirs = block_medians(blocks), block_medians(baseline)
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} blocks cannot be paired with {len(theirs)}")
    if min(*ours, *theirs) <= 0:
        return None
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    return math.exp(median(logs) * (-1 if direction == "lower" else 1))


def verdict(ratio: Interval, *, enough: bool, timed: bool) -> Verdict:
    """The verdict that the ratio's interval supports."""
    if not enough:
        return "insufficient data"
    if ratio.low > 1:
        return "faster" if timed else "better"
    if ratio.high < 1:
        return "slower" if timed else "worse"
    return "no difference shown"


def noise_flags(blocks: Blocks) -> set[Flag]:
    """Doubts that one process's blocks raise: variation, and drift between halves."""
    medians = np.asarray(block_medians(blocks))
    centre = abs(float(np.median(medians))) or 1.0
    q1, q3 = np.quantile(medians, [0.25, 0.75])
    half = max(1, len(medians) // 2)
    shift = abs(float(np.median(medians[-half:]) - np.median(medians[:half])))
    steadily = float(np.ptp(medians)) > 0 and (
        abs(float(np.corrcoef(medians, np.arange(len(medians)))[0, 1])) > DRIFT_CORRELATION
    )
    varies, drifts = (q3 - q1) / centre > VARIATION_LIMIT, shift / centre > DRIFT_LIMIT
    doubts = {Flag.VARIATION: varies, Flag.DRIFT: drifts and steadily}
    return {flag for flag, raised in doubts.items() if raised}


def point(
    variant: str,
    x: Where,
    blocks: Blocks,
    *,
    direction: Direction,
    baseline: Blocks | None = None,
    flags: Sequence[Flag] = (),
) -> Point:
    """Return one process's measurement of a variant: a point to be joined with others.

    ``baseline`` are the blocks of what it is compared with, measured in turns with ``blocks``.
    """
    times = None if baseline is None else block_ratio(blocks, baseline, direction)
    samples = [sample for block in blocks for sample in block]
    doubts = {*flags, *noise_flags(blocks), Flag.ONE_PROCESS}
    runs, ratios = [median(block_medians(blocks))], [times] if times else []
    return point_of_runs(variant, x, samples, runs, ratios, of="processes", flags=doubts)


def over_seeds(
    variant: str,
    x: Where,
    values: Sequence[float],
    *,
    direction: Direction = "higher",
    baseline: Sequence[float] | None = None,
) -> Point:
    """The mean of one value a seed, compared seed by seed with the baseline's."""
    ratios: list[float] = []
    if baseline is not None and min(*values, *baseline) > 0:
        pairs = zip(values, baseline, strict=True)
        ratios = [b / a if direction == "lower" else a / b for a, b in pairs]
    return point_of_runs(variant, x, values, values, ratios, of="seeds")


def point_of_runs(
    variant: str,
    x: Where,
    samples: Sequence[float],
    runs: Sequence[float],
    ratios: Sequence[float],
    *,
    of: str,
    flags: Sequence[Flag] | set[Flag] = (),
) -> Point:
    """A point from its runs; its intervals are drawn by :func:`hold_together`."""
    q1, middle, q3 = (float(q) for q in np.quantile(samples, [0.25, 0.5, 0.75]))
    ratio = None
    if ratios:
        ratio = Ratio(value=1.0, low=1.0, high=1.0, verdict="insufficient data", runs=tuple(ratios))
    point = Point(
        variant=variant,
        x=x,
        samples=tuple(float(sample) for sample in samples)[:5_000],
        median=middle,
        q1=q1,
        q3=q3,
        low=middle,
        high=middle,
        ratio=ratio,
        flags=tuple(flag for flag in Flag if flag in flags),
        runs=tuple(float(run) for run in runs),
        of=of,  # type: ignore[arg-type]
    )
    return with_intervals(point)


def with_intervals(
    point: Point,
    comparisons: int = 1,
    within: tuple[float, float] = (-math.inf, math.inf),
    confidence: float = CONFIDENCE,
) -> Point:
    """The point with estimates, intervals and verdict from its runs.

    ``within`` is what the quantity can be: the interval is cut there.
    """
    if not point.runs:
        return point
    timed, enough = point.of == "processes", len(point.runs) >= MIN_RUNS[point.of]
    # Times are products of many causes: their logarithms are what spreads evenly.
    geometric = timed and min(point.runs) > 0
    interval = geometric_interval if geometric else mean_interval
    bounds = interval(point.runs, comparisons, confidence)
    ratio = None
    if point.ratio is not None and point.ratio.runs:
        times = geometric_interval(point.ratio.runs, comparisons, confidence)
        word = verdict(times, enough=enough, timed=timed)
        ratio = point.ratio.model_copy(update={**asdict(times), "verdict": word})
    flags = {*point.flags} - {Flag.FEW} | (set() if enough else {Flag.FEW})
    return point.model_copy(
        update={
            "value": bounds.value,
            "low": max(within[0], bounds.low),
            "high": min(within[1], bounds.high),
            "ratio": ratio,
            "flags": tuple(flag for flag in Flag if flag in flags),
        }
    )


SINGULAR = {"processes": "process", "seeds": "seed"}


def hold_together(series: Series, confidence: float = CONFIDENCE) -> Series:
    """The series with intervals that all cover at once in 95 of 100 series."""
    compared = [point for point in series.points if point.ratio and point.ratio.runs]
    measured = [point for point in series.points if point.runs]
    if not measured:
        return series
    comparisons = len(compared) or len(measured)
    axis = series.y
    least = -math.inf if axis.least is None else axis.least
    most = math.inf if axis.most is None else axis.most
    points = tuple(
        with_intervals(one, comparisons, (least, most), confidence) for one in series.points
    )
    runs, of = len(measured[0].runs), measured[0].of
    what = "geometric mean" if of == "processes" else "mean"
    how = f"{what} of {runs} {of if runs > 1 else SINGULAR[of]}"
    if runs > 1:
        how += f"; 95 % intervals (Student) of {comparisons} that hold together"
        if confidence > CONFIDENCE:
            how += f", drawn at {100 * confidence:.3g} % since narrow ones end measuring"
    return series.model_copy(update={"points": points, "estimator": how})


def exact_point(
    variant: str, x: Where, value: float, *, direction: Direction, baseline: float | None = None
) -> Point:
    """A point for what is counted, not sampled: bytes, operations. It has no interval."""
    ratio = None
    if baseline is not None and value > 0 and baseline > 0:
        times = baseline / value if direction == "lower" else value / baseline
        word = verdict(Interval(times, times, times), enough=True, timed=False)
        ratio = Ratio(value=times, low=times, high=times, verdict=word)
    point = point_of_runs(variant, x, [value], [], [], of="")
    return point.model_copy(update={"ratio": ratio})

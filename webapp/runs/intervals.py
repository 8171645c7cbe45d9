"""Intervals of the ratios of a run's processes, as `methods.measure` draws them."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from assay_common import student
from methods.protocol import Point, Series, Variant
from methods.spec import Benchmark

# Of an interval by so many processes, whichever look ended measuring (`methods.measure.processes`):
# after 5 processes 99 %, after 10 98.5 %, later what these leave of 95 %.
LOOKS = ((10, 0.99), (20, 0.985), (math.inf, 0.975))


def confidence(processes: int) -> float:
    """Confidence of one claim's interval: stopping after several looks then keeps 95 %."""
    return next(share for most, share in LOOKS if processes < most)


def geometric(logs: Sequence[float], share: float = 0.95) -> tuple[float, float, float]:
    """Return the geometric mean of ratios, given by their logarithms, with its interval."""
    mean, degrees = fmean(logs), len(logs) - 1
    deviation = math.hypot(*(log - mean for log in logs)) / math.sqrt(degrees)
    half = student.quantile(degrees, share) * deviation / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def of_processes(ratios: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the interval by which a claim is judged: for one claim, not a chart of many.

    None if it cannot be computed from the ratios of the processes.
    """
    if len(ratios) < 2 or min(ratios) <= 0:
        return None
    return geometric([math.log(ratio) for ratio in ratios], confidence(len(ratios)))


def between(point: Point, other: Point) -> tuple[float, float, float] | None:
    """Return the ratio of two points at the same x, with its interval: (ratio, low, high).

    Paired by run if both list runs; otherwise from the ends of their intervals, which is wider.
    None if the ratio is undefined, as with zeros, or overflows.
    """
    try:
        if len(point.runs) == len(other.runs) > 1 and min(*point.runs, *other.runs) > 0:
            pairs = zip(point.runs, other.runs, strict=True)
            return geometric([math.log(mine) - math.log(its) for mine, its in pairs])
        if point.low > 0 and other.low > 0:
            return point.estimate / other.estimate, point.low / other.high, point.high / other.low
    except (ValueError, ArithmeticError):
        return None
    return None


# A benchmark's controls: a figure says nothing for a mechanism until it beats them.


def unbeaten(series: Series, point: Point, benchmark: Benchmark | None) -> Variant | None:
    """Return the first measured control that a point is not shown to be better than."""
    for variant, control in _controls(series, point, benchmark):
        ratio = between(point, control) if control else None
        if ratio and not _is_better(series, ratio):
            return variant
    return None


def unmeasured(series: Series, point: Point, benchmark: Benchmark | None) -> Variant | None:
    """Return the first control of a chart that a point cannot be compared with, or None."""
    for variant, control in _controls(series, point, benchmark):
        if control is None or between(point, control) is None:
            return variant
    return None


def _controls(
    series: Series, point: Point, benchmark: Benchmark | None
) -> Iterator[tuple[Variant, Point | None]]:
    """Yield the chart's controls, each with its point at the same x.

    Controls are the variants of a benchmark that leave the mechanism out. A control with a single x
    counts at every x, because its cost does not depend on x.
    """
    names = benchmark.controls if benchmark else ()
    for variant in series.variants:
        if variant.name in names and variant.name != point.variant:
            points = [other for other in series.points if other.variant == variant.name]
            same_x = [other for other in points if other.x == point.x]
            yield variant, next(iter(same_x or points if len(points) == 1 else same_x), None)


def _is_better(series: Series, ratio: tuple[float, float, float]) -> bool:
    """True if the whole interval of the ratio lies on the better side of 1."""
    _, low, high = ratio
    return low > 1 if series.direction == "higher" else high < 1

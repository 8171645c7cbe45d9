"""From samples to statements: medians, quartiles, intervals, ratios, doubts and verdicts.

Variants are measured in interleaved blocks, so block b of a variant and block b of the baseline
saw the same machine. Everything here therefore works on blocks: a block is summarised by the
median of its samples, a pair of blocks by the logarithm of its ratio, and whole blocks are
resampled.

Which bootstrap. With 5 to 20 blocks the percentile bootstrap is too narrow: it resamples from a
distribution whose variance is (n - 1)/n of the sample's, and uses normal where Student's tails are
due; it covers about 84 % at 5 blocks. BCa corrects bias and skew, not this. The studentised
bootstrap does, but at n = 5 some resamples are nearly constant and its intervals are wild. We take
the percentile bootstrap of the mean log ratio and stretch its deviations by
t(n - 1) / z * sqrt(n / (n - 1)), the two corrections that Hesterberg names (2015, "What Teachers
Should Know About the Bootstrap", arXiv:1411.5279): Student's interval for normal data, the
bootstrap's asymmetry for skewed data. The bootstrap's quantiles are themselves noisy, so neither
side is ever drawn nearer than Student's: better "no difference shown" than a false alarm. The
tests hold this to 93 % coverage and 6 % false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from methods.protocol import Flag, Point, Ratio, Verdict
from methods.spec import Direction

MIN_BLOCKS = 5
RESAMPLES = 2000
VARIATION_LIMIT = 0.10
DRIFT_LIMIT = 0.05
DRIFT_CORRELATION = 0.7  # with time, so that scatter is not called drift

Blocks = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The mean of independent values with its widened bootstrap interval.

    One value alone has no interval: low and high are then the value itself. The same values always
    give the same interval (the resampling is seeded). Raises ValueError for no value or NaN.
    """
    data = np.asarray(values, dtype=np.float64)  # (n,)
    if data.size == 0 or not np.isfinite(data).all():
        raise ValueError("an interval needs finite values")
    mean, n = float(data.mean()), data.size
    if n == 1 or float(np.ptp(data)) == 0.0:
        return Interval(mean, mean, mean)
    means = data[_resamples(n)].mean(axis=1)  # (RESAMPLES,)
    tail = (1 - confidence) / 2
    t = student_quantile(1 - tail, n - 1)
    stretch = t / NormalDist().inv_cdf(1 - tail) * math.sqrt(n / (n - 1))
    below, above = stretch * (np.quantile(means, [tail, 1 - tail]) - mean)
    student = t * float(data.std(ddof=1)) / math.sqrt(n)
    return Interval(mean, mean + min(float(below), -student), mean + max(float(above), student))


@lru_cache(maxsize=64)
def _resamples(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    drawn: np.ndarray[tuple[int, int], np.dtype[np.int64]] = np.random.default_rng(n).integers(
        0, n, size=(RESAMPLES, n)
    )
    return drawn


@lru_cache(maxsize=256)
def student_quantile(p: float, degrees: int) -> float:
    """The quantile ``p`` >= 1/2 of Student's t with a whole number of degrees of freedom.

    Bisection on the finite series for its distribution (Abramowitz and Stegun 26.7.3, 26.7.4).
    """
    low, high = 0.0, 1.0
    while _student_cdf(high, degrees) < p:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, degrees) < p else (low, middle)
    return high


def _student_cdf(t: float, degrees: int) -> float:
    angle = math.atan(t / math.sqrt(degrees))
    cosine, odd = math.cos(angle), degrees % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, degrees, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    central = math.sin(angle) * total
    if odd:
        central = 2 / math.pi * (angle + central)
    return 0.5 + central / 2


def block_medians(blocks: Blocks) -> list[float]:
    """The median of each block's samples."""
    return [float(np.median(np.asarray(block, dtype=np.float64))) for block in blocks]


def typical_block(blocks: Blocks) -> Interval:
    """The typical block's value: geometric mean of block medians, arithmetic where one is <= 0."""
    medians = block_medians(blocks)
    if min(medians) <= 0:
        return mean_interval(medians)
    return _exp(mean_interval([math.log(median) for median in medians]))


def paired_ratio(blocks: Blocks, baseline: Blocks, direction: Direction) -> Interval | None:
    """How many times better than the baseline, above 1 is better; None unless all are positive.

    Block b is compared with the baseline's block b. Raises ValueError when they cannot be paired.
    """
    ours, theirs = block_medians(blocks), block_medians(baseline)
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} blocks cannot be paired with {len(theirs)}")
    if min(*ours, *theirs) <= 0:
        return None
    sign = -1.0 if direction == "lower" else 1.0
    return _exp(mean_interval([sign * math.log(a / b) for a, b in zip(ours, theirs, strict=True)]))


def _exp(interval: Interval) -> Interval:
    return Interval(math.exp(interval.value), math.exp(interval.low), math.exp(interval.high))


def verdict(
    ratio: Interval, blocks: int, *, min_blocks: int = MIN_BLOCKS, words: str = "faster/slower"
) -> Verdict:
    """What the ratio's interval allows to be said; ``words`` "faster/slower" or "better/worse"."""
    if blocks < min_blocks:
        return "insufficient data"
    timed = words == "faster/slower"
    if ratio.low > 1:
        return "faster" if timed else "better"
    if ratio.high < 1:
        return "slower" if timed else "worse"
    return "no difference shown"


def noise_flags(blocks: Blocks, *, min_blocks: int = MIN_BLOCKS) -> tuple[Flag, ...]:
    """Doubts that the samples themselves raise: too few blocks, variation, drift between halves."""
    if len(blocks) < min_blocks:
        return (Flag.FEW,)
    medians = np.asarray(block_medians(blocks))
    centre = abs(float(np.median(medians))) or 1.0
    q1, q3 = np.quantile(medians, [0.25, 0.75])
    half = len(medians) // 2
    shift = abs(float(np.median(medians[-half:]) - np.median(medians[:half])))
    steadily = float(np.ptp(medians)) > 0 and (
        abs(float(np.corrcoef(medians, np.arange(len(medians)))[0, 1])) > DRIFT_CORRELATION
    )
    flags = []
    if (q3 - q1) / centre > VARIATION_LIMIT:
        flags.append(Flag.VARIATION)
    if shift / centre > DRIFT_LIMIT and steadily:
        flags.append(Flag.DRIFT)
    return tuple(flags)


def point(
    variant: str,
    x: float | str,
    blocks: Blocks,
    *,
    direction: Direction,
    baseline: Blocks | None = None,
    flags: Sequence[Flag] = (),
    min_blocks: int = MIN_BLOCKS,
    words: str = "faster/slower",
    noise: bool = True,
    within: tuple[float, float] | None = None,
) -> Point:
    """A series' point from the blocks of one variant, with its ratio to the baseline's blocks.

    For quality over seeds, a block is one seed's result: pass ``min_blocks=3``,
    ``words="better/worse"`` and ``noise=False`` (seeds differ; that is not the machine's doing, and
    the interval is that of their mean, not of its logarithm). ``within`` is what a value can be at
    least and at most, as a percentage lies in 0 .. 100: its interval is cut there.
    """
    samples = np.concatenate([np.asarray(block, dtype=np.float64) for block in blocks])
    q1, median, q3 = (float(q) for q in np.quantile(samples, [0.25, 0.5, 0.75]))
    interval = typical_block(blocks) if noise else mean_interval(block_medians(blocks))
    least, most = within or (-math.inf, math.inf)
    found = set(flags) | set(noise_flags(blocks, min_blocks=min_blocks))
    if not noise:
        found -= {Flag.VARIATION, Flag.DRIFT}
    ratio = None
    pair = None if baseline is None else paired_ratio(blocks, baseline, direction)
    if pair is not None:
        said = verdict(pair, len(blocks), min_blocks=min_blocks, words=words)
        ratio = Ratio(value=pair.value, low=pair.low, high=pair.high, verdict=said)
    return Point(
        variant=variant,
        x=float(x) if not isinstance(x, str) else x,
        samples=tuple(float(sample) for sample in samples),
        median=median,
        q1=q1,
        q3=q3,
        low=max(least, interval.low),
        high=min(most, interval.high),
        ratio=ratio,
        flags=tuple(flag for flag in Flag if flag in found),
    )


def exact_point(
    variant: str,
    x: float | str,
    value: float,
    *,
    direction: Direction,
    baseline: float | None = None,
) -> Point:
    """A point for what is counted, not sampled: bytes, operations. It has no interval."""
    value = float(value)
    ratio = None
    if baseline is not None and value > 0 and baseline > 0:
        times = float(baseline) / value if direction == "lower" else value / float(baseline)
        said: Verdict = "no difference shown"
        if times != 1:
            said = "better" if times > 1 else "worse"
        ratio = Ratio(value=times, low=times, high=times, verdict=said)
    return Point(
        variant=variant,
        x=float(x) if not isinstance(x, str) else x,
        samples=(value,),
        median=value,
        q1=value,
        q3=value,
        low=value,
        high=value,
        ratio=ratio,
    )

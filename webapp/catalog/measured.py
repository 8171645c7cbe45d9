"""What answers a method's claims: its standing measurements, one for each class of hardware."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from methods.protocol import Point, Ratio, Series
from methods.spec import Answer, Claim, Method
from webapp.catalog.verdicts import Figure, Verdict, figure, judge
from webapp.runs.models import Run, StandingMeasurement


@dataclass(frozen=True)
class Measurement:
    """A series as a run measured it."""

    run: Run
    hardware: str
    series: Series
    headline: bool = False  # the first series of its run: what its benchmark is about

    @property
    def at(self) -> datetime | None:
        """When the run ended."""
        return self.run.finished_at


@dataclass(frozen=True)
class Answered:
    """A claim beside what was measured for it on one class of hardware."""

    claim: Claim
    verdict: Verdict
    figure: Figure | None = None
    measurement: Measurement | None = None
    unit: str = ""

    @property
    def file(self) -> str:
        """The file of the method's code that counts or argues the answer, or none."""
        counted = self.claim.counted
        return f"{counted.__module__.rpartition('.')[2]}.py" if counted else self.claim.argument


def latest(method: Method) -> list[Measurement]:
    """The measurement that stands for every series on every class of hardware, newest first."""
    rows = StandingMeasurement.objects.filter(method=method.slug).select_related("series__run")
    return [
        Measurement(row.series.run, row.hardware, row.series.parsed(), row.headline)
        for row in rows.order_by("rank", "-measured_at", "series_id")
    ]


def answer(method: Method, measurements: Iterable[Measurement]) -> list[Answered]:
    """Every claim of the source with its verdict, once for each hardware that answers it."""
    measurements = list(measurements)
    answered: list[Answered] = []
    for claim in method.claims:
        points = _points(claim.answer, measurements) if claim.answer else []
        if not points:
            unit = "×" if claim.unit == "times" else claim.unit
            answered.append(Answered(claim, judge(claim, None), figure(claim, None), unit=unit))
        for measurement, point in points:
            ratio = claim.answer is not None and claim.answer.quantity == "ratio"
            answered.append(
                Answered(
                    claim,
                    judge(claim, point),
                    figure(claim, point),
                    measurement,
                    "×" if ratio else measurement.series.y.unit,
                )
            )
    return answered


def _points(wanted: Answer, measurements: Iterable[Measurement]) -> list[tuple[Measurement, Point]]:
    """The point that answers on each hardware: at the wanted x, or the series' largest."""
    found = []
    for measurement in measurements:
        series = measurement.series
        if (measurement.run.benchmark, series.name) != (wanted.benchmark, wanted.series):
            continue
        at = [p for p in series.points if wanted.x is None or p.x == wanted.x]
        mine = [p for p in at if p.variant == wanted.variant]
        if mine and wanted.against:
            mine = _against(mine[-1], [p for p in at if p.variant == wanted.against])
        if mine:
            found.append((measurement, mine[-1]))
    return found


def _against(point: Point, others: list[Point]) -> list[Point]:
    """The point with its ratio to another variant's at the same x; none where that has none.

    The interval is that of the ends: wider than one of pairs, which the series no longer has.
    """
    other = next((one for one in others if one.x == point.x and one.low > 0), None)
    if other is None:
        return []
    ratio = Ratio(
        value=point.estimate / other.estimate,
        low=point.low / other.high,
        high=point.high / other.low,
        verdict="better" if point.low > other.high else "no difference shown",
    )
    return [point.model_copy(update={"ratio": ratio})]


@dataclass(frozen=True)
class Best:
    """The best figure of a method: how many times better than the baseline, where, on what."""

    ratio: float
    word: str  # faster, or better where it is not about time
    x: str
    hardware: str

    @property
    def text(self) -> str:
        """As a chip says it: "measured 3.5× faster at 4096 tokens, NVIDIA H200"."""
        return f"measured {self.ratio:.1f}× {self.word} at {self.x}, {self.hardware}"


def best(measurements: Iterable[Measurement]) -> Best | None:
    """The largest ratio of ours that was shown to be better and is not in doubt.

    Ours is the first variant that a series calls so. Time goes before all else (a cache's bytes),
    and what a benchmark is about before what it measures besides.
    """
    found: list[tuple[bool, Best]] = []
    for measurement in measurements:
        series = measurement.series
        ours = next((variant.name for variant in series.variants if variant.ours), None)
        for point in series.points:
            ratio = point.ratio
            if point.variant != ours or ratio is None or point.flags:
                continue
            if ratio.verdict in {"faster", "better"}:
                where = series.x.at(point.x)
                one = Best(ratio.value, ratio.verdict, where, measurement.hardware)
                found.append((measurement.headline, one))
    ordered = sorted(found, key=lambda pair: (pair[1].word == "faster", pair[0], pair[1].ratio))
    return ordered[-1][1] if ordered else None

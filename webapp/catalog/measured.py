"""Current measurements that answer a method's claims, one for each class of hardware."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from urllib.parse import urlencode

from cachetools import LRUCache

from methods.protocol import Point, Ratio, Series
from methods.spec import Answer, Claim, Method
from webapp.catalog.verdicts import Figure, Verdict, figure, judge
from webapp.runs import intervals
from webapp.runs.models import Run, StandingMeasurement
from webapp.runs.models import Series as StoredSeries
from webapp.runs.texts import in_language

# Of series that were counted where each point is one number: nothing a processor can be slow at.
COUNTS = frozenset({"bytes", "KiB", "MiB", "GiB", "tokens", "operations", "FLOPs", "%"})
ABOVE = "above what its operations allow"
_Key = tuple[object, int]
# A series never changes once its run has ended: it is read and judged once a process.
_parsed: LRUCache[_Key, Series] = LRUCache(maxsize=1024)
_lock = Lock()


@dataclass(frozen=True)
class Measurement:
    """A current measurement with its series as the run measured it."""

    row: StandingMeasurement
    series: Series

    @property
    def run(self) -> Run:
        """The run that measured it."""
        return self.row.series.run

    @cached_property
    def shown(self) -> Series:
        """The series in the language of the page."""
        return in_language(self.series)

    @cached_property
    def counted(self) -> bool:
        """True if the values are counts, the same on every machine; peak memory is not one."""
        points = self.series.points
        if "peak" in f"{self.series.title} {self.series.y.label}".lower():
            return False
        exact = all(len(point.samples) == 1 and point.low == point.high for point in points)
        return self.series.y.unit in COUNTS and exact

    @property
    def above_limit(self) -> list[str]:
        """Doubts about points that lie above every limit of the chart; [] if there are none."""
        beyond = [
            point
            for point in self.series.points
            if point.ratio and point.ratio.low > self.series.most(point)
        ]
        flags = sorted({str(flag) for point in beyond for flag in point.flags})
        return flags or (["reason unknown"] if beyond else [])

    @property
    def where(self) -> str:
        """Description of the hardware that the numbers hold for."""
        return "computed, the same on any machine" if self.counted else self.row.hardware

    @property
    def place(self) -> tuple[str, str, str]:
        """Key of the measurement: benchmark, series and class of hardware."""
        return self.row.benchmark, self.row.name, self.row.hardware


@dataclass(frozen=True)
class Answered:
    """A claim with its measurement on one class of hardware."""

    claim: Claim
    verdict: Verdict
    figure: Figure | None = None
    measurement: Measurement | None = None

    @property
    def unit(self) -> str:
        """Unit of its figure."""
        if self.measurement is None:
            return "×" if self.claim.unit == "times" else self.claim.unit
        expected = self.claim.answer
        return "×" if expected and expected.quantity == "ratio" else self.measurement.series.y.unit

    @property
    def reasoning(self) -> str:
        """Link to the argument in the method's documents: `?file=README.md#recall-of-needles`."""
        document, _, heading = self.claim.argument.partition("#")
        return f"?{urlencode({'file': document})}#{heading}"


def standing(methods: Sequence[Method]) -> dict[str, list[Measurement]]:
    """Return every current measurement of each method, newest first, by the method's slug.

    Those of earlier benchmark versions are included.
    """
    related = "series__run__reader", "series__run__environment"
    by_method: dict[str, list[Measurement]] = {method.slug: [] for method in methods}
    stored = StandingMeasurement.objects.filter(method__in=by_method).select_related(*related)
    rows = list(stored.defer("series__data").order_by("rank", "-measured_at", "series_id"))
    series = _series([row.series for row in rows])
    for row in rows:
        by_method[row.method].append(Measurement(row, series[row.series_id]))
    return by_method


def current(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the measurement that counts most for each series and class of hardware.

    A smoke run only shows that everything runs: it is too short to answer a claim.
    """
    smoke = StandingMeasurement.Rank.SMOKE
    measurements = [measurement for measurement in measurements if measurement.row.rank != smoke]
    latest = {
        measurement.place: measurement
        for measurement in sorted(measurements, key=lambda measurement: measurement.row.weight)
    }
    return [measurement for measurement in measurements if latest[measurement.place] is measurement]


def _series(stored: list[StoredSeries]) -> dict[int, Series]:
    """Return the parsed series by primary key; one query for those that are not cached."""
    with _lock:
        parsed = {row.pk: _parsed.get((row.run_id, row.pk)) for row in stored}
    missing = [key for key, series in parsed.items() if series is None]
    if missing:
        read = StoredSeries.objects.in_bulk(missing)
        with _lock:
            for key, row in read.items():
                parsed[key] = _parsed[row.run_id, key] = row.parsed()
    return {key: series for key, series in parsed.items() if series is not None}


def answer(method: Method, measurements: Sequence[Measurement]) -> list[Answered]:
    """Return every claim of the source with its verdict on each hardware that answers it."""
    return [
        Answered(claim, judge(claim, point), figure(claim, point), measurement)
        for claim in method.claims
        for measurement, point in _points(claim.answer, measurements)
    ]


def doubts_of(series: Series, point: Point) -> tuple[str, ...]:
    """Return the doubts about a ratio: its flags, and an interval beyond every limit."""
    flags = tuple(map(str, point.flags))
    return (*flags, ABOVE) if point.ratio and point.ratio.low > series.most(point) else flags


def _points(
    expected: Answer | None, measurements: Sequence[Measurement]
) -> list[tuple[Measurement | None, Point | None]]:
    """Return the point that answers on each hardware: at the expected x, or the largest.

    [(None, None)] if no measurement answers.
    """
    answers: list[tuple[Measurement | None, Point | None]] = []
    for measurement in measurements:
        series, of = measurement.series, measurement.place[:2]
        if expected is None or of != (expected.benchmark, expected.series):
            continue
        point = series.point_of(expected.variant, expected.x)
        if point and expected.against:
            point = compared(series, point, expected.against)
        if point:
            answers.append((measurement, point))
    return answers or [(None, None)]


def compared(series: Series, point: Point, against: str) -> Point | None:
    """Return a point with its ratio to another variant's at the same x; None if it has none.

    The ratio is above 1 where the point is better, whether higher or lower values are.
    """
    other = series.point_of(against, point.x)
    if other is None:
        return None
    better, worse = (other, point) if series.direction == "lower" else (point, other)
    ratios = intervals.between(better, worse)
    if ratios is None:
        return None
    value, low, high = ratios
    try:
        ratio = Ratio(
            value=value, low=low, high=high, verdict="better" if low > 1 else "no difference shown"
        )
    except ValueError:  # infinite, or rounded to nothing: such a ratio is no number
        return None
    return point.model_copy(update={"ratio": ratio})

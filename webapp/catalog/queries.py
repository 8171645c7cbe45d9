"""Queries for the pages of methods and papers."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from django.db.models import Count, Window
from django.db.models.functions import RowNumber
from django.utils.translation import gettext

from methods import charts, registry
from methods.spec import Mechanism, Method
from webapp.catalog.comparable import Comparison, best, comparisons, is_ours
from webapp.catalog.measured import Answered, Measurement, answer, current, standing
from webapp.catalog.models import MethodLink
from webapp.catalog.verdicts import Word
from webapp.papers.models import Paper
from webapp.papers.search.query import QueryError
from webapp.runs.models import Run, StandingMeasurement
from webapp.runs.texts import translate_spec
from webapp.runs.web.present import headline

PAPERS_SHOWN = 12
QUICK_SHOWN = 3


@dataclass(frozen=True)
class Carried:
    """A method with its measurements, which are read on first use unless they are `given`."""

    method: Method
    given: list[Measurement] | None = None

    @cached_property
    def standing(self) -> list[Measurement]:
        """Current measurements of every series, by hardware and version."""
        if self.given is not None:
            return self.given
        return standing([self.method])[self.method.slug]

    @cached_property
    def measurements(self) -> list[Measurement]:
        """Current measurements among these."""
        return current(self.standing)

    @cached_property
    def answers(self) -> list[Answered]:
        """Every claim with its measurements."""
        return answer(self.method, self.measurements)

    @property
    def verdicts(self) -> list[tuple[Word, int]]:
        """Number of claims with each verdict, in the order of `Word`; a claim counts once."""
        verdict_words = {
            answered.claim.id: answered.verdict.word for answered in reversed(self.answers)
        }
        counts = Counter(verdict_words.values())
        return [(word, counts[word]) for word in Word if counts[word]]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Every measured ratio, for all variants."""
        return [comparison for of in self.measurements for comparison in comparisons(of)]

    @cached_property
    def best(self) -> Comparison | None:
        """Best figure of ours, for the method's own pages."""
        return best(filter(is_ours, self.comparisons))

    def best_of(self, mechanism: Mechanism) -> Comparison | None:
        """Return the best figure of one mechanism, for the paper that proposes it."""
        return best(comparison for comparison in self.of(mechanism) if comparison.scope.stage)

    def of(self, mechanism: Mechanism) -> list[Comparison]:
        """Return the comparisons of one mechanism."""
        name = f"{self.method.slug}/{mechanism.slug}"
        return [comparison for comparison in self.comparisons if comparison.scope.mechanism == name]

    @cached_property
    def quick(self) -> list[Measurement]:
        """Measurements by quick runs of the current benchmark versions, newest first."""
        versions = {benchmark.slug: benchmark.version for benchmark in self.method.benchmarks}
        return [
            measurement
            for measurement in sorted(
                self.standing, key=attrgetter("row.measured_at"), reverse=True
            )
            if measurement.row.quick
            and versions.get(measurement.row.benchmark) == measurement.row.version
        ]

    @property
    def quick_runs(self) -> list[tuple[Run, str]]:
        """The latest quick runs, each with its first sentence."""
        runs = {m.run.pk: m.run for m in self.quick}
        latest = list(runs.values())[:QUICK_SHOWN]
        series = {run.pk: [m.shown for m in self.quick if m.run.pk == run.pk] for run in latest}
        return [(run, headline(run, series[run.pk])) for run in latest]

    def figures_of(self, mechanism: Mechanism) -> list[Comparison]:
        """Return the comparisons of one mechanism, quick runs included."""
        name = f"{self.method.slug}/{mechanism.slug}"
        current = {id(measurement) for measurement in self.measurements}
        quick = [run for run in self.quick if id(run) not in current]
        figures = [*self.comparisons, *(figure for run in quick for figure in comparisons(run))]
        return [figure for figure in figures if figure.scope.mechanism == name]

    @cached_property
    def in_order(self) -> list[Measurement]:
        """The current ones: the headline's first, then what verdicts rest on, then by the gain."""
        first = self.best.measurement if self.best else None
        judged = {answered.measurement.place for answered in self.answers if answered.measurement}
        return sorted(
            self.measurements,
            key=lambda measurement: (
                measurement is first,
                measurement.place in judged,
                *_gain(measurement),
            ),
            reverse=True,
        )

    @property
    def chart(self) -> str:
        """The first of these as SVG that a page's own stylesheet colours; "" with none."""
        if not self.in_order or not self.in_order[0].series.points:
            return ""
        series = self.in_order[0].shown
        quantity: charts.Quantity = "ratio" if any(p.ratio for p in series.points) else "value"
        return charts.draw(
            series, quantity, standalone=False, ident=series.name, say=translate_spec
        )

    @cached_property
    def history(self) -> list[Comparison]:
        """The best figure on each class of hardware in each version, the latest first."""
        groups: dict[tuple[str, int], list[Comparison]] = defaultdict(list)
        for measurement in self.standing:
            ours = filter(is_ours, comparisons(measurement))
            groups[measurement.where, measurement.row.version].extend(ours)
        figures = filter(None, map(best, groups.values()))
        return sorted(figures, key=attrgetter("measurement.row.measured_at"), reverse=True)


def _gain(measurement: Measurement) -> tuple[bool, bool, float]:
    """Sort key of chips: time, then the benchmark's own quantity, then the largest ratio."""
    ratios = [p.ratio for p in measurement.series.points if p.ratio]
    faster = any(r.verdict == "faster" for r in ratios)
    return faster, measurement.row.headline, max((r.value for r in ratios), default=0.0)


def all_carried() -> list[Carried]:
    """Return every method that the site carries, with its measurements."""
    methods = registry.all_methods()
    measurements = standing(methods)
    return [Carried(method, measurements[method.slug]) for method in methods]


def paper_counts() -> dict[str, int]:
    """Return the number of papers about each method."""
    links = MethodLink.objects.filter(MethodLink.counting()).values("method")
    return dict(links.annotate(count=Count("id")).values_list("method", "count"))


def papers_of(method: str) -> list[MethodLink]:
    """The latest papers about a method, with the evidence."""
    links = MethodLink.objects.filter(MethodLink.counting(), method=method)
    order = "-paper__announced_on", "-paper__arxiv_id"
    return list(links.select_related("paper").order_by(*order)[:PAPERS_SHOWN])


def latest_papers(most: int) -> dict[str, list[MethodLink]]:
    """The latest papers about each method, at most so many. One query."""
    newest_first = Window(
        RowNumber(), partition_by="method", order_by=["-paper__announced_on", "-paper__arxiv_id"]
    )
    links = MethodLink.objects.filter(MethodLink.counting()).annotate(place=newest_first)
    latest: dict[str, list[MethodLink]] = defaultdict(list)
    for link in links.filter(place__lte=most).select_related("paper").order_by("place"):
        latest[link.method].append(link)
    return latest


def papers_about(method: str) -> list[int]:
    """Keys of the papers about a method, for `method:sparse_attention` in a search."""
    links = MethodLink.objects.filter(MethodLink.counting(), method=method.replace("-", "_"))
    return list(links.values_list("paper_id", flat=True))


def papers_with(what: str) -> list[int]:
    """Keys of the papers whose own mechanism was measured here, for `has:measured`.

    Raises QueryError for anything else.
    """
    if what != "measured":
        raise QueryError(gettext("The only “has:” is “has:measured”."))
    places = StandingMeasurement.objects.values_list("method", "benchmark").distinct()
    measured = set(places)
    ids = {
        arxiv_id
        for method in registry.all_methods()
        for mechanism in method.mechanisms
        if any((method.slug, benchmark) in measured for benchmark in mechanism.measured)
        for arxiv_id in mechanism.papers
    }
    return list(Paper.objects.filter(arxiv_id__in=ids).values_list("pk", flat=True))

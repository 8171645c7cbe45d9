"""What the pages of methods and papers read."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from django.db.models import Case, Count, Max, When, Window
from django.db.models.functions import RowNumber, TruncMonth
from django.utils.translation import gettext

from methods import charts, registry
from methods.spec import Mechanism, Method
from webapp.catalog import phrases
from webapp.catalog.comparable import Comparison, ReportedNumber, best, comparisons, is_ours
from webapp.catalog.measured import Answered, Measurement, answer, current, standing
from webapp.catalog.models import MethodLink
from webapp.catalog.verdicts import Word
from webapp.papers.models import Paper
from webapp.papers.search.query import QueryError
from webapp.runs.models import StandingMeasurement
from webapp.runs.texts import said
from webapp.summaries.models import Claim

PAPERS_SHOWN = 12


@dataclass(frozen=True)
class Carried:
    """A method with its measurements, each part read on first use."""

    method: Method

    @cached_property
    def standing(self) -> list[Measurement]:
        """The measurements that stand for every series, by hardware and version."""
        return standing(self.method)

    @cached_property
    def measurements(self) -> list[Measurement]:
        """The ones of these that are current."""
        return current(self.standing)

    @cached_property
    def answers(self) -> list[Answered]:
        """Every claim beside what was measured for it."""
        return answer(self.method, self.measurements)

    @property
    def verdicts(self) -> list[tuple[Word, int]]:
        """How many claims have each verdict, in the order of `Word`; a claim counts once."""
        words = {answered.claim.id: answered.verdict.word for answered in reversed(self.answers)}
        counts = Counter(words.values())
        return [(word, counts[word]) for word in Word if counts[word]]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Every ratio that was measured, for all variants."""
        return [comparison for of in self.measurements for comparison in comparisons(of)]

    @cached_property
    def best(self) -> Comparison | None:
        """The best figure of ours, for the method's own pages."""
        return best(filter(is_ours, self.comparisons))

    def best_of(self, mechanism: Mechanism) -> Comparison | None:
        """The best figure of one mechanism, for the paper that proposes it."""
        return best(comparison for comparison in self.of(mechanism) if comparison.scope.stage)

    def of(self, mechanism: Mechanism) -> list[Comparison]:
        """What was measured of one mechanism."""
        name = f"{self.method.slug}/{mechanism.slug}"
        return [comparison for comparison in self.comparisons if comparison.scope.mechanism == name]

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
        return charts.draw(series, quantity, standalone=False, ident=series.name, say=said)

    @cached_property
    def history(self) -> list[Comparison]:
        """The best figure on each class of hardware in each version, the latest first."""
        groups: dict[tuple[str, int], list[Measurement]] = defaultdict(list)
        for measurement in self.standing:
            groups[measurement.where, measurement.row.version].append(measurement)
        figures = [
            figure
            for group in groups.values()
            if (
                figure := best(
                    filter(is_ours, (c for measurement in group for c in comparisons(measurement)))
                )
            )
        ]
        return sorted(
            figures, key=lambda comparison: comparison.measurement.row.measured_at, reverse=True
        )


def _gain(measurement: Measurement) -> tuple[bool, bool, float]:
    """As in a chip: time, then what a benchmark is about, then the largest ratio."""
    ratios = [p.ratio for p in measurement.series.points if p.ratio]
    faster = any(r.verdict == "faster" for r in ratios)
    return faster, measurement.row.headline, max((r.value for r in ratios), default=0.0)


def all_carried() -> list[Carried]:
    """Every method we carry."""
    return [Carried(method) for method in registry.all_methods()]


def paper_counts() -> dict[str, int]:
    """How many papers are about each method."""
    links = MethodLink.objects.filter(MethodLink.counting()).values("method")
    return dict(links.annotate(count=Count("id")).values_list("method", "count"))


def papers_of(method: str, *, undecided: bool = False) -> list[MethodLink]:
    """The latest papers about a method, with the evidence; for an operator all linked ones last."""
    links = MethodLink.objects.filter(method=method).select_related("paper")
    if not undecided:
        links = links.filter(MethodLink.counting())
    links = links.alias(behind=Case(When(MethodLink.counting(), then=0), default=1))
    order = "behind", "-paper__announced_on", "-paper__arxiv_id"
    return list(links.order_by(*order)[:PAPERS_SHOWN])


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


def papers_by_month(method: str) -> list[tuple[date, int]]:
    """How many papers about a method were announced in each of the last twelve months."""
    counting = MethodLink.objects.filter(MethodLink.counting(), method=method)
    latest = counting.aggregate(latest=Max("paper__announced_on"))["latest"]
    if latest is None:
        return []
    months = [
        date(latest.year + (latest.month - 1 - back) // 12, (latest.month - 1 - back) % 12 + 1, 1)
        for back in range(11, -1, -1)
    ]
    lately = counting.filter(paper__announced_on__gte=months[0])
    by_month = lately.annotate(month=TruncMonth("paper__announced_on")).values("month")
    counts = dict(by_month.annotate(count=Count("id")).values_list("month", "count"))
    return [(month, counts.get(month, 0)) for month in months]


def papers_about(method: str) -> list[int]:
    """Keys of the papers about a method, for `method:sparse_attention` in a search."""
    links = MethodLink.objects.filter(MethodLink.counting(), method=method.replace("-", "_"))
    return list(links.values_list("paper_id", flat=True))


def papers_with(what: str) -> list[int]:
    """Keys of the papers whose own mechanism was measured here, for `has:measured`.

    Raises QueryError for anything else.
    """
    if what != "measured":
        raise QueryError(gettext("A search knows “has:measured”, and no other “has:”."))
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


@dataclass(frozen=True)
class PaperMethod:
    """A method that a paper is about, why, and the mechanism of it that the paper proposes."""

    link: MethodLink
    carried: Carried

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """The one that the paper proposes; None where ours is a related method, not this one."""
        return self.carried.method.proposed_by(self.link.paper.arxiv_id)

    @cached_property
    def nearest(self) -> tuple[Mechanism, str] | None:
        """The mechanism that the words of a paper with another one name first, and those words.

        No figure stands beside it: the paper's own mechanism is not ours.
        """
        if self.mechanism:
            return None
        paper = self.link.paper
        named = [
            (phrase.weight, mechanism, phrase.words)
            for mechanism in self.carried.method.mechanisms
            if (phrase := phrases.mechanism(mechanism, paper.title, paper.abstract))
        ]
        return max(named, key=lambda found: found[0])[1:] if named else None

    @cached_property
    def best(self) -> Comparison | None:
        """What was measured of the paper's own mechanism."""
        return self.carried.best_of(self.mechanism) if self.mechanism else None

    @property
    def measured(self) -> bool:
        """Whether the paper's own mechanism was measured at all."""
        return self.mechanism is not None and bool(self.carried.of(self.mechanism))

    @property
    def reported(self) -> str:
        """The name under which the paper's own numbers are looked up."""
        return f"{self.link.method}/{self.mechanism.slug}" if self.mechanism else ""


def methods_of(paper: Paper) -> list[PaperMethod]:
    """The methods a paper is about, each with why and with what was measured."""
    known = registry.slugs()
    links = MethodLink.objects.filter(MethodLink.counting(), paper=paper).select_related("paper")
    return [
        PaperMethod(link, Carried(registry.get(link.method)))
        for link in links.order_by("-score", "method")
        if link.method in known
    ]


def beside(
    claims: Sequence[Claim], methods: Sequence[PaperMethod]
) -> list[tuple[Claim, Comparison | None]]:
    """Each number that a paper reports, with the figure of ours that may stand beside it."""
    proposing = [of_paper for of_paper in methods if of_paper.mechanism]
    measured = [comparison for method in proposing for comparison in method.carried.comparisons]
    answers: list[tuple[Claim, Comparison | None]] = []
    for claim in claims:
        names = [of_paper.reported for of_paper in proposing] if claim.verified else []
        ours = (ReportedNumber(claim, name).beside(measured) for name in names)
        answers.append((claim, next(filter(None, ours), None)))
    return answers

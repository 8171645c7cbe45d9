"""What the pages of methods and papers read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count

from methods import charts, registry
from methods.spec import Method
from webapp.catalog.measured import Answered, Best, Measurement, answer, best, latest
from webapp.catalog.models import MethodLink
from webapp.papers.models import Paper
from webapp.runs.models import StandingMeasurement


@dataclass(frozen=True)
class Carried:
    """A method with what was measured of it, each part read when it is asked for."""

    method: Method

    @cached_property
    def measurements(self) -> list[Measurement]:
        """The measurement that stands for every series, by hardware."""
        return latest(self.method)

    @cached_property
    def answers(self) -> list[Answered]:
        """Every claim beside what was measured for it."""
        return answer(self.method, self.measurements)

    @cached_property
    def best(self) -> Best | None:
        """The best figure, for a chip."""
        return best(self.measurements)

    @cached_property
    def pictures(self) -> list[tuple[Measurement, str]]:
        """The charts: what is faster first, as SVG that a page's own stylesheet colours."""
        drawn = []
        for number, measurement in enumerate(self.measurements):
            series = measurement.series
            quantity = "ratio" if any(p.ratio for p in series.points) else "value"
            if series.points:
                ident = f"{series.name}-{number}"
                svg = charts.draw(series, quantity, standalone=False, ident=ident)  # type: ignore[arg-type]
                drawn.append((measurement, svg))
        return sorted(drawn, key=lambda pair: _gain(pair[0]), reverse=True)


def _gain(measurement: Measurement) -> tuple[bool, bool, float]:
    """As in a chip: time, then what a benchmark is about, then the largest ratio."""
    ratios = [p.ratio for p in measurement.series.points if p.ratio]
    faster = any(r.verdict == "faster" for r in ratios)
    return faster, measurement.headline, max((r.value for r in ratios), default=0.0)


def all_carried() -> list[Carried]:
    """Every method we carry."""
    return [Carried(method) for method in registry.all_methods()]


def paper_counts() -> dict[str, int]:
    """How many papers are about each method."""
    rows = MethodLink.objects.filter(MethodLink.counting()).values("method")
    return dict(rows.annotate(count=Count("id")).values_list("method", "count"))


def papers_of(method: str, *, undecided: bool = False) -> list[MethodLink]:
    """The latest papers about a method, with the evidence; for an operator the others, too."""
    links = MethodLink.objects.filter(method=method).select_related("paper")
    if not undecided:
        links = links.filter(MethodLink.counting())
    return list(links.order_by("-paper__announced_on", "-paper__arxiv_id")[:50])


def papers_about(method: str) -> list[int]:
    """Keys of the papers about a method, for `method:sparse_attention` in a search."""
    links = MethodLink.objects.filter(MethodLink.counting(), method=method.replace("-", "_"))
    return list(links.values_list("paper_id", flat=True))


def papers_with(what: str) -> list[int]:
    """Keys of the papers about a method that was measured here, for `has:measured`."""
    if what != "measured":
        return []
    measured = StandingMeasurement.objects.values("method")
    links = MethodLink.objects.filter(MethodLink.counting(), method__in=measured)
    return list(links.values_list("paper_id", flat=True))


def methods_of(paper: Paper) -> list[tuple[MethodLink, Carried]]:
    """The methods a paper is about, each with why and with what was measured."""
    known = registry.slugs()
    links = MethodLink.objects.filter(MethodLink.counting(), paper=paper)
    return [
        (link, Carried(registry.get(link.method)))
        for link in links.order_by("-score", "method")
        if link.method in known
    ]

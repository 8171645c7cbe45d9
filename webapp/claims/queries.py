"""What stored papers report of one quantity: a metric on a benchmark, from the cells of tables."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from webapp.claims.models import ReportedValue

ORDERS = {"newest": "Newest first", "best": "Best first"}


def quantities(text: str = "") -> QuerySet[ReportedValue, Any]:
    """Every quantity with how many papers report it, the commonest first.

    `text` limits them to those whose benchmark or metric holds it.
    """
    named = Q(benchmark__icontains=text) | Q(metric__icontains=text)
    counted = ReportedValue.objects.filter(named).values("benchmark", "metric")
    return counted.annotate(
        papers=Count("paper", distinct=True), count=Count("id"), newest=Max("id")
    ).order_by("-papers", "benchmark", "metric")


def reported(
    benchmark: str, metric: str, order: str = "newest", *, own: bool = False, text: str = ""
) -> QuerySet[ReportedValue]:
    """The values of a quantity with their papers and tables; `own` leaves out baselines.

    `text` limits them to those whose subject or setting holds it.
    """
    values = ReportedValue.objects.filter(benchmark=benchmark, metric=metric)
    if own:
        values = values.filter(is_own=True)
    if text:
        values = values.filter(Q(subject__icontains=text) | Q(setting__icontains=text))
    first = ["-paper__announced_on", "-paper_id", "table_id", "row", "column"]
    if order == "best":
        is_higher = values.filter(better="higher").exists()
        first = ["-value" if is_higher else "value", *first]
    return values.select_related("paper", "table__reading").order_by(*first)


def cell_of(value: ReportedValue) -> str:
    """The fragment of a value's cell on its paper's page."""
    return f"table-{value.table.position + 1}-{value.row}-{value.column}"


@dataclass(frozen=True)
class Elsewhere:
    """A number that another paper gives the same subject, in the same setting."""

    text: str
    arxiv_id: str
    cell: str  # the fragment of its cell on that paper's page


@dataclass(frozen=True)
class Line:
    """A value as a page lists it, with what other papers report under the same words."""

    value: ReportedValue
    elsewhere: list[Elsewhere]

    @property
    def cell(self) -> str:
        """The fragment of its cell on the paper's page."""
        return cell_of(self.value)


def lines(values: Iterable[ReportedValue]) -> list[Line]:
    """Values with the differing numbers that other papers give the same subject and setting.

    Nothing is merged: the subject must be written alike, in the same setting and unit.
    """
    kept: dict[tuple[object, ...], ReportedValue] = {}
    for value in values:  # what a table gives twice under the same words is listed once
        kept.setdefault((value.table_id, value.text, _scope(value)), value)
    listed = list(kept.values())
    alike = ReportedValue.objects.filter(
        benchmark__in={value.benchmark for value in listed},
        metric__in={value.metric for value in listed},
        subject__in={value.subject for value in listed},
    )
    others: dict[tuple[str, ...], list[ReportedValue]] = defaultdict(list)
    for other in alike.select_related("paper", "table").order_by("value", "paper_id", "pk"):
        others[_scope(other)].append(other)
    return [Line(value, _differing(value, others[_scope(value)])) for value in listed]


def _differing(value: ReportedValue, alike: Iterable[ReportedValue]) -> list[Elsewhere]:
    """The first cell of each other paper for each number that is not this one."""
    numbers = {
        (other.text, other.paper.arxiv_id): cell_of(other)
        for other in alike
        if other.paper_id != value.paper_id and other.value != value.value
    }
    return [Elsewhere(*key, cell) for key, cell in numbers.items()]


def _scope(value: ReportedValue) -> tuple[str, ...]:
    """All that must be written alike before two numbers are set beside each other."""
    return tuple(getattr(value, name) for name in _SAME)


_SAME = ("benchmark", "metric", "subject", "setting", "unit")

"""What stored papers report of one quantity: a metric on a benchmark, from the cells of tables."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Max, Q, QuerySet

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
    benchmark: str, metric: str, order: str = "newest", *, own: bool = False
) -> QuerySet[ReportedValue]:
    """The values of a quantity with their papers and tables; `own` leaves out baselines."""
    values = ReportedValue.objects.filter(benchmark=benchmark, metric=metric)
    if own:
        values = values.filter(is_own=True)
    first = ["-paper__announced_on", "-paper_id", "table_id", "row", "column"]
    if order == "best":
        is_higher = values.filter(better="higher").exists()
        first = ["-value" if is_higher else "value", *first]
    return values.select_related("paper", "table").order_by(*first)


@dataclass(frozen=True)
class Line:
    """A value as a page lists it, with what other papers report under the same words."""

    value: ReportedValue
    elsewhere: list[str]  # other papers' numbers of the same subject and setting

    @property
    def cell(self) -> str:
        """The fragment of its cell on the paper's page."""
        return f"table-{self.value.table.position + 1}-{self.value.row}-{self.value.column}"


def lines(values: Iterable[ReportedValue]) -> list[Line]:
    """Values with the differing numbers that other papers give the same subject and setting.

    Nothing is merged: the subject must be written alike, in the same setting and unit.
    """
    listed = list(values)
    known = ReportedValue.objects.filter(
        benchmark__in={value.benchmark for value in listed},
        metric__in={value.metric for value in listed},
        subject__in={value.subject for value in listed},
    ).values_list(*_SAME, F("paper_id"), F("text"), F("value"))
    others: dict[tuple[str, ...], list[tuple[int, str, object]]] = defaultdict(list)
    for *key, paper, text, number in known:
        others[tuple(key)].append((paper, text, number))
    return [
        Line(
            value,
            sorted(
                {
                    text
                    for paper, text, number in others[tuple(getattr(value, f) for f in _SAME)]
                    if paper != value.paper_id and number != value.value
                }
            ),
        )
        for value in listed
    ]


_SAME = ("benchmark", "metric", "subject", "setting", "unit")

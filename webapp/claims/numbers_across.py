"""What abstracts of stored papers report of one quantity: a list for a page, a file or a feed."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, F, Max, Q, QuerySet

from webapp.claims.models import AbstractNumber
from webapp.papers.models import Paper

SCOPE = ("metric", "relation", "benchmark", "against", "stage")
_WORDS = ("name", "direction", "subject", "baseline", "setting", "quote")
_RELATIONS = {"gain": "gain", "loss": "reduction", "share": "share kept", "within": "difference"}


def numbers(scope: Mapping[str, str], order: str = "newest") -> QuerySet[AbstractNumber]:
    """The numbers in exactly this scope, newest first or largest first, with their papers."""
    wanted = AbstractNumber.objects.filter(**{name: scope.get(name, "") for name in SCOPE})
    first = ["-paper__announced_on", "-paper_id", "start"]
    if order == "largest":
        return wanted.select_related("paper").order_by(F("value").desc(nulls_last=True), *first)
    return wanted.select_related("paper").order_by(*first)


def lines(rows: Iterable[AbstractNumber]) -> list[list[AbstractNumber]]:
    """Rows as a page lists them: numbers that a sentence gives the same words are one line."""
    return [list(group) for _, group in groupby(rows, attrgetter("paper_id", *_WORDS))]


def scopes(text: str = "") -> QuerySet[AbstractNumber, Any]:
    """Every scope with how many papers report it, the commonest first; `text` is in its names."""
    named = Q(benchmark__icontains=text) | Q(metric__icontains=text) | Q(against__icontains=text)
    counted = AbstractNumber.objects.filter(named).values(*SCOPE)
    found: QuerySet[AbstractNumber, Any] = counted.annotate(
        papers=Count("paper", distinct=True), count=Count("id"), newest=Max("id")
    ).order_by("-papers", *SCOPE)
    return found


def query(scope: Mapping[str, str]) -> str:
    """The query string of a scope's page."""
    return urlencode({name: scope[name] for name in SCOPE if scope.get(name)})


def title(scope: Mapping[str, str]) -> str:
    """In words: "speed-up over full attention, decode", "accuracy on GSM8K"."""
    relation = _RELATIONS.get(scope["relation"], "")
    if scope["relation"] == "ratio" and "speed" not in scope["metric"]:
        relation = "ratio"
    words = " ".join(part for part in (scope["metric"], relation) if part)
    if scope.get("benchmark"):
        words += f" on {scope['benchmark']}"
    if scope.get("against"):
        words += f" over {scope['against']}"
    return f"{words}, {scope['stage']}" if scope.get("stage") else words


def links_of(paper: Paper) -> dict[int, str]:
    """The query strings of the quantities that a paper's abstract reports, by place."""
    rows = AbstractNumber.objects.filter(paper=paper).values("start", *SCOPE)
    return {row["start"]: query(row) for row in rows}

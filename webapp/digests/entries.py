"""Gists and method chips of digest entries: read with them, so no digest is built anew for them.

A gist is one sentence of a paper's summary, a chip a method with its best figure.
"""

from typing import Any

from django.db import transaction
from django.db.models import (
    Count,
    JSONField,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
)  # fmt: skip
from django.db.models.functions import Coalesce

from webapp.digests.models import Chips, Digest, DigestEntry
from webapp.summaries.queries import shown_summaries


def with_summaries(entries: QuerySet[DigestEntry]) -> QuerySet[DigestEntry]:
    """Add to entries the gist of their paper in their profile's language, and its chips."""
    shown = shown_summaries().filter(
        paper=OuterRef("paper"), language=OuterRef("digest__profile__language")
    )
    empty = Value("", TextField())
    gists: dict[str, Any] = {
        "gist": Coalesce(Subquery(shown.values("gist")[:1]), empty),
        "gist_html": Coalesce(Subquery(shown.values("gist_html")[:1]), empty),
        "summarised_at": Subquery(shown.values("finished_at")[:1]),
        "chips": Coalesce(
            Subquery(Chips.objects.filter(paper=OuterRef("paper")).values("chips")),
            Value([], JSONField()),
        ),
    }
    return entries.annotate(**gists)


LATEST = 2  # days whose papers are summarised, and their tables read
# Scopes that decide which papers are summarised automatically.
SUMMARISED = ("papers", "digests", "profiles")


def papers_to_summarise(papers_a_day: int) -> dict[str, list[int]]:
    """Paper ids to summarise automatically, by language: the top of the latest days' digests.

    The site's own profile first, then the latest day and the best places. Two queries.
    """
    made = Digest.objects.filter(is_sample=False).order_by("-date")
    latest = list(made.values_list("date", flat=True).distinct()[:LATEST])
    top = DigestEntry.objects.filter(
        digest__date__in=latest,
        digest__is_sample=False,
        rank__lte=papers_a_day,
        also_mentioned=False,
    )
    each = top.values_list("digest__profile__language", "paper").annotate(
        on_site=Count("pk", filter=Q(digest__profile__is_site=True)),
        day=Max("digest__date"),
        best=Min("rank"),
    )
    by_language: dict[str, list[int]] = {}
    for language, paper, *_ in each.order_by("-on_site", "-day", "best", "paper"):
        by_language.setdefault(language, []).append(paper)
    return by_language


def papers_of_latest(papers_a_day: int) -> list[int]:
    """The ids of the papers at the top of the site's latest digests, newest and best first."""
    latest = Digest.objects.filter(profile__is_site=True, is_sample=False).order_by("-date")
    shown = DigestEntry.objects.filter(digest__in=list(latest[:LATEST]), also_mentioned=False)
    top = shown.filter(rank__lte=papers_a_day)
    return list(top.order_by("-digest__date", "rank").values_list("paper_id", flat=True))


def store_chips(chips_by_paper: dict[int, list[dict[str, str]]]) -> int:
    """Store all chips ({paper id: [{"method", "name", "figure"}]}); return how many changed.

    A paper that is missing loses its chips. Idempotent.
    """
    stored: dict[int, list[dict[str, str]]] = dict(Chips.objects.values_list("paper_id", "chips"))
    changed = {
        paper_id: chips_by_paper.get(paper_id, [])
        for paper_id in stored.keys() | chips_by_paper.keys()
        if stored.get(paper_id, []) != chips_by_paper.get(paper_id, [])
    }
    with transaction.atomic():
        Chips.objects.filter(paper_id__in=changed).delete()
        rows = [Chips(paper_id=key, chips=chips) for key, chips in changed.items() if chips]
        Chips.objects.bulk_create(rows)
    return len(changed)

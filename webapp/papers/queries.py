"""Reads of papers and of the audit for pages and digests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.db import connection
from django.db.models import F

from webapp.papers.cards import Card
from webapp.papers.models import Announcement, AnnounceType, Listing, Paper


def rows(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of an SQL statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


@dataclass(frozen=True)
class Announced(Card):
    """A paper on a day, with its most significant announcement over all categories."""

    paper: Paper
    announce_type: AnnounceType
    version: int
    categories: tuple[str, ...] = ()  # those that announced it, in alphabetical order


def announced_on(date: date, categories: list[str] | None = None) -> list[Announced]:
    """Every paper announced on `date`, in the order of identifiers; one query.

    All listings of the day are merged first (new > cross > replace > replace-cross): a paper
    cross-listed in one and new in another is new. `categories` limits the papers to those announced
    in one of them, never the merging.
    """
    rows = Announcement.objects.filter(listing__date=date)
    if categories is not None:
        wanted = rows.filter(listing__category__in=categories)
        rows = rows.filter(paper__in=wanted.values("paper"))
    announced = []
    named = rows.select_related("paper").annotate(category=F("listing__category"))
    ordered = named.order_by("paper__arxiv_id", "category")
    for _, of_paper in groupby(ordered, key=attrgetter("paper_id")):
        listed = list(of_paper)
        best = min(listed, key=attrgetter("weight"))
        names = tuple(row.category for row in listed)
        announced.append(Announced(best.paper, AnnounceType(best.type), best.version, names))
    return announced


def dates(limit: int | None = None, **of: str) -> list[date]:
    """The days with papers, the latest first; `of` filters listings, e.g. by category."""
    complete = Listing.objects.filter(state=Listing.State.COMPLETE, **of)
    return list(complete.order_by("-date").values_list("date", flat=True).distinct()[:limit])


def categories() -> list[str]:
    """Every category that was ever polled, in alphabetical order."""
    names = Listing.objects.order_by("category").values_list("category", flat=True)
    return list(names.distinct())

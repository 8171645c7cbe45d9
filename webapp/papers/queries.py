"""Reads of papers and of the audit for pages and digests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
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
    found = Announcement.objects.filter(listing__date=date)
    if categories is not None:
        wanted = found.filter(listing__category__in=categories)
        found = found.filter(paper__in=wanted.values("paper"))
    announced = []
    named = found.select_related("paper").annotate(category=F("listing__category"))
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


# In SQL for speed: it runs for every page served from memory. The page lists similar papers, so it
# also depends on the latest day and on the last answer of the API.
_PAGE_STAMP = """
    SELECT version.id, version.announced_on, one.id, one.type, one.version,
        (SELECT max(changed_at) FROM papers_listing
            WHERE date = (SELECT max(date) FROM papers_listing)),
        (SELECT max(enriched_at) FROM papers_paper)
    FROM papers_paper AS paper
    LEFT JOIN papers_paperversion AS version ON version.paper_id = paper.id
    LEFT JOIN papers_announcement AS one ON one.paper_id = paper.id
    WHERE paper.id = %s ORDER BY version.id, one.id
"""
# What other apps show a reader on a paper's page depends on this (by key); `catalog` replaces it.
others_on_page: Callable[[int, int | None], object] = lambda _paper, _reader: ()  # noqa: E731


def page_stamp(paper: Paper, reader: User | AnonymousUser) -> str:
    """All that the page of a paper depends on, except the personal pieces laid over it."""
    words = [getattr(paper, field.attname) for field in Paper._meta.concrete_fields]
    others = others_on_page(paper.pk, reader.pk)
    shown = (reader.is_authenticated, reader.is_staff, words, rows(_PAGE_STAMP, [paper.pk]), others)
    return sha256(repr(shown).encode()).hexdigest()

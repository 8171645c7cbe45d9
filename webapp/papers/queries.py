"""Reads of papers and of the audit for pages and digests."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection, transaction

from webapp.papers.cards import Card
from webapp.papers.models import Announcement, AnnounceType, Listing, Paper


def rows(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of an SQL statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        answer: list[tuple[Any, ...]] = cursor.fetchall()
        return answer


@contextmanager
def still_there(papers: Iterable[Paper]) -> Iterator[set[int]]:
    """A transaction in which those of `papers` that exist are not deleted; yields their keys.

    For rows that took long to derive: meanwhile real papers may have replaced the sample.
    """
    with transaction.atomic():
        rows = Paper.objects.filter(pk__in=[paper.pk for paper in papers]).order_by("pk")
        yield set(rows.select_for_update(no_key=True).values_list("pk", flat=True))


@dataclass(frozen=True)
class Announced(Card):
    """A paper on a day, with its most significant announcement over all categories."""

    paper: Paper
    announce_type: AnnounceType
    version: int
    categories: tuple[str, ...] = ()  # those that announced it, in alphabetical order


def announced_on(
    date: date, categories: list[str] | None = None, paper: Paper | None = None
) -> list[Announced]:
    """Every paper announced on `date`, in the order of identifiers; two queries.

    All listings of the day are merged first (new > cross > replace > replace-cross): a paper
    cross-listed in one and new in another is new. `categories` limits the papers to those announced
    in one of them, never the merging; `paper` limits them to one.
    """
    announcements = Announcement.objects.filter(listing__date=date)
    if paper is not None:
        announcements = announcements.filter(paper=paper)
    if categories is not None:
        in_categories = announcements.filter(listing__category__in=categories)
        announcements = announcements.filter(paper__in=in_categories.values("paper"))
    # Each paper is read once, in however many listings it is.
    read = Paper.objects.filter(pk__in=announcements.values("paper"))
    papers = {paper.pk: paper for paper in read}
    ordered = announcements.order_by("paper__arxiv_id", "listing__category")
    rows = ordered.values_list("paper", "listing__category", "type", "version")
    announced = []
    for key, of_paper in groupby(rows, key=itemgetter(0)):
        listed = [(AnnounceType(kind), version, name) for _, name, kind, version in of_paper]
        kind, version, _ = min(listed, key=lambda row: (row[0].precedence, -row[1]))
        names = tuple(name for *_, name in listed)
        if key in papers:  # else it was removed meanwhile
            announced.append(Announced(papers[key], kind, version, names))
    return announced


def dates(limit: int | None = None, **of: str) -> list[date]:
    """The days with papers, the latest first; `of` filters listings, e.g. by category."""
    complete = Listing.objects.filter(state=Listing.State.COMPLETE, **of)
    return list(complete.order_by("-date").values_list("date", flat=True).distinct()[:limit])


def categories() -> list[str]:
    """Every category that was ever polled, in alphabetical order."""
    names = Listing.objects.order_by("category").values_list("category", flat=True)
    return list(names.distinct())

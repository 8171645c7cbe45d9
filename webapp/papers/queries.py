"""What pages and digests read of papers and of the audit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date

from django.db.models import QuerySet

from webapp.papers.models import Announcement, AnnounceType, Listing, Paper


@dataclass(frozen=True)
class Announced:
    """A paper on a day, as its weightiest announcement over all categories has it."""

    paper: Paper
    type: AnnounceType
    version: int

    @property
    def announce_type(self) -> str:
        """As cards show it."""
        return self.type.value


def announced_on(date: date, categories: list[str] | None = None) -> list[Announced]:
    """Every paper announced on `date`, in the order of identifiers; one query.

    All listings of the day are merged before anything is dropped (new > cross > replace >
    replace-cross): a paper cross-listed in one and new in another is new. `categories` limits
    the papers to those announced in one of them, never the merging.
    """
    rows = Announcement.objects.filter(listing__date=date).select_related("paper", "listing")
    seen_in: dict[int, set[str]] = defaultdict(set)
    best: dict[int, Announced] = {}
    for row in rows.order_by("paper__arxiv_id", "pk"):
        seen_in[row.paper_id].add(row.listing.category)
        announced = Announced(row.paper, AnnounceType(row.type), row.version)
        known = best.get(row.paper_id)
        if known is None or _weight(announced) < _weight(known):
            best[row.paper_id] = announced
    if categories is None:
        return list(best.values())
    wanted = set(categories)
    return [announced for key, announced in best.items() if seen_in[key] & wanted]


def _weight(announced: Announced) -> tuple[int, int]:
    return announced.type.precedence, -announced.version


def latest_date() -> date | None:
    """The last day with papers."""
    return _with_papers().order_by("-date").values_list("date", flat=True).first()


def dates(limit: int | None = None) -> list[date]:
    """The days with papers, the latest first."""
    days = _with_papers().order_by("-date").values_list("date", flat=True).distinct()
    return list(days[:limit])


def announced_in(paper: Paper) -> QuerySet[Announcement]:
    """When, where and how a paper was announced, the latest first."""
    return paper.announcements.select_related("listing").order_by("-listing__date", "type")


def categories() -> list[str]:
    """Every category that was ever polled, in the order of names."""
    names = Listing.objects.order_by("category").values_list("category", flat=True)
    return list(names.distinct())


def _with_papers() -> QuerySet[Listing]:
    return Listing.objects.filter(state=Listing.State.COMPLETE)

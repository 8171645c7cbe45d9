"""Reads for digest pages."""

from calendar import Calendar
from collections.abc import Iterable
from datetime import date as Date
from typing import Any, NamedTuple

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import OuterRef, QuerySet, Subquery

from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.papers.models import Listing, Paper
from webapp.papers.queries import rows

# In SQL for speed: it runs for every page served from memory, and the ORM would take longer to
# compile it than the database to answer it.
_STAMP = """
    SELECT digest.id,
        (SELECT max(date) FROM digests_digest
            WHERE profile_id = profile.id AND date < digest.date),
        (SELECT min(date) FROM digests_digest
            WHERE profile_id = profile.id AND date > digest.date),
        (SELECT count(*) FROM papers_listing WHERE source = 'sample'),
        (SELECT max(polled_at) FROM papers_listing WHERE date {} digest.date),
        digest.fingerprint, digest.changed_at, profile.updated_at
    FROM digests_digest AS digest
    JOIN digests_profile AS profile ON profile.id = digest.profile_id
    WHERE {} ORDER BY digest.date DESC LIMIT 1
"""

_ENTRIES_STAMP = """
    SELECT entry.id, profile.updated_at FROM digests_digestentry AS entry
    JOIN digests_digest AS digest ON digest.id = entry.digest_id
    JOIN digests_profile AS profile ON profile.id = digest.profile_id
    WHERE entry.paper_id = %s AND (profile.is_site OR profile.owner_id = %s) ORDER BY entry.id
"""


class PageStamp(NamedTuple):
    """All that the page of a digest depends on: with the same stamp it is the same page."""

    digest: int
    previous: Date | None  # the neighbouring dates that have a digest
    next: Date | None
    sample_listings: int
    others: tuple[object, ...]  # only compared


_VISIBLE = "(profile.owner_id IS NULL OR profile.is_published OR profile.owner_id = %s)"


def page_stamp(
    slug: str | None = None, date: Date | None = None, reader: int | None = None
) -> PageStamp | None:
    """The stamp of a profile's digest of `date`, or its latest; the site's own without a slug.

    None without a digest that `reader` may see. One query.
    """
    where: str = "profile.is_site"
    values: list[object] = []
    if slug:
        where, values = f"profile.slug = %s AND {_VISIBLE}", [slug, reader]
    if date:
        where, values = f"{where} AND digest.date = %s", [*values, date.isoformat()]
    found = rows(_STAMP.format("=" if date else ">=", where), values)
    if not found:
        return None
    digest, previous, following, samples, *others = found[0]
    return PageStamp(digest, _day(previous), _day(following), samples, tuple(others))


def _day(value: object) -> Date | None:
    """SQLite returns text."""
    return Date.fromisoformat(str(value)) if value else None


def entries_stamp(paper: int, reader: int | None) -> list[tuple[object, ...]]:
    """All that a paper's places in the site's digests and a reader's own depend on. One query.

    A digest that changes gets new entries.
    """
    return rows(_ENTRIES_STAMP, [paper, reader])


def digest_entries(digest: Digest) -> list[DigestEntry]:
    """The digest's entries in their order, each with its paper: one query."""
    return list(digest.entries.select_related("paper"))


def all_matches(digest: Digest) -> list[DigestEntry]:
    """Every paper that matched, in order: the stored entries, then further ones that are not.

    The latter have no texts: `load_texts` gets them for the few that a page shows.
    """
    first = digest_entries(digest)
    further = getattr(digest, "further", None)
    return first + entries_of_rows(digest, further.rows if further else (), len(first) + 1)


def entries_of_rows(
    digest: Digest | None, rows: Iterable[dict[str, Any]], rank: int
) -> list[DigestEntry]:
    """Matches stored as rows, as entries without texts, ranked from `rank` on."""
    bare = Paper.objects.defer("abstract", "abstract_html", "title_html")
    papers = bare.in_bulk([row["paper"] for row in rows])
    known = [row for row in rows if row["paper"] in papers]
    return [
        DigestEntry(digest=digest, rank=number, **row | {"paper": papers[row["paper"]]})
        for number, row in enumerate(known, rank)
    ]


def load_texts(shown: Iterable[DigestEntry]) -> None:
    """Title and abstract of entries that are not stored."""
    bare = [entry for entry in shown if entry.pk is None]
    papers = Paper.objects.in_bulk([entry.paper_id for entry in bare])
    for entry in bare:
        entry.paper = papers.get(entry.paper_id, entry.paper)


def incomplete_after(listings: Iterable[Listing], date: Date) -> list[Listing]:
    """The stale and failed listings of the days after `date`, the latest poll at the end."""
    bad = {Listing.State.STALE, Listing.State.FAILED}
    late = [row for row in listings if row.date > date and row.state in bad]
    return sorted(late, key=lambda row: (row.date, row.polled_at))


def neighbouring_dates(profile: Profile, date: Date) -> tuple[Date | None, Date | None]:
    """The last date before and the first after `date` that have a digest."""
    mine = Digest.objects.filter(profile=profile).values_list("date", flat=True)
    before, after = mine.filter(date__lt=date), mine.filter(date__gt=date)
    return before.order_by("-date").first(), after.order_by("date").first()


def last_polls() -> list[Listing]:
    """The latest audit row of every category, by category."""
    polled = Listing.objects.exclude(source=Listing.Source.SAMPLE).order_by("-date")[:200]
    latest = {row.category: row for row in reversed(list(polled))}
    return [latest[name] for name in sorted(latest)]


# A month's first day, and its weeks from Monday: each day with its digest, if any.
Month = tuple[Date, list[list[tuple[Date, Digest | None] | None]]]


def months(profile: Profile) -> list[Month]:
    """Every month in which the profile has a digest, the latest first."""
    digests = {digest.date: digest for digest in Digest.objects.filter(profile=profile)}
    firsts = sorted({date.replace(day=1) for date in digests}, reverse=True)
    return [
        (
            first,
            [
                [(day, digests.get(day)) if day.month == first.month else None for day in week]
                for week in Calendar().monthdatescalendar(first.year, first.month)
            ],
        )
        for first in firsts
    ]


# As above, for a category's day and its links to other days.
_CATEGORY_STAMP = """
    SELECT l.id, l.date, l.state, l.polled_at, l.changed_at,
        (SELECT count(*) FROM papers_listing WHERE category = l.category AND state = 'complete'),
        (SELECT max(date) FROM papers_listing WHERE category = l.category AND state = 'complete'),
        (SELECT count(*) FROM papers_listing WHERE source = 'sample'),
        count(n.id), sum(n.id), sum(a.version), max(a.enriched_at)
    FROM papers_listing l
    LEFT JOIN papers_announcement n ON n.listing_id = l.id
    LEFT JOIN papers_paper a ON a.id = n.paper_id
    WHERE l.id = (
        SELECT id FROM papers_listing WHERE category = %s AND state = 'complete' {}
        ORDER BY date DESC LIMIT 1)
    GROUP BY l.id
"""


def category_stamp(category: str, date: Date | None = None) -> tuple[object, ...] | None:
    """All that the page of a category's day, or its latest, depends on; None without such a day.

    One query.
    """
    when, values = ("AND date = %s", [category, date.isoformat()]) if date else ("", [category])
    return next(iter(rows(_CATEGORY_STAMP.format(when), values)), None)


def profiles(visitor: User | AnonymousUser) -> QuerySet[Profile]:
    """Every profile that a visitor may see, with the date of its latest digest.

    The site's own comes first.
    """
    mine = Digest.objects.filter(profile=OuterRef("pk")).order_by("-date")
    return (
        Profile.visible_to(visitor)
        .select_related("owner")
        .annotate(
            latest=Subquery(mine.values("date")[:1]), matched=Subquery(mine.values("matched")[:1])
        )
    )

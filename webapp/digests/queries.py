"""Reads for digest pages."""

from calendar import Calendar
from collections.abc import Iterable, Sequence
from datetime import date as Date
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Exists, OuterRef, QuerySet, Subquery

from webapp.digests.entries import with_summaries
from webapp.digests.models import Chips, Digest, DigestEntry, Profile
from webapp.digests.profiles.validation import ProfileError, read_settings
from webapp.digests.scoring.rules import Candidate
from webapp.digests.scoring.scorer import Scorer
from webapp.papers.models import Listing, Paper
from webapp.summaries.queries import shown_summaries


def digest_at(slug: str | None = None, date: Date | None = None) -> Any:
    """A profile's digest of `date`, or its latest; the site's own without a slug. None without one.

    With its profile, further matches, `previous` and `next` (the neighbouring dates that have a
    digest) and `sampled` (whether the site shows the sample): one query.
    """
    whose = Digest.objects.filter(**{"profile__slug": slug} if slug else {"profile__is_site": True})
    beside = Digest.objects.filter(profile=OuterRef("profile")).order_by("date").values("date")
    digests = whose.select_related("profile", "further").annotate(
        previous=Subquery(beside.filter(date__lt=OuterRef("date")).reverse()[:1]),
        next=Subquery(beside.filter(date__gt=OuterRef("date"))[:1]),
        sampled=Exists(Listing.objects.filter(source=Listing.Source.SAMPLE)),
    )
    # The sample stays first until a day has something for the site's own list.
    latest = digests.order_by("-date") if slug else digests.order_by("-is_sample", "-date")
    return (digests.filter(date=date) if date else latest).first()


def digest_entries(digest: Digest) -> list[DigestEntry]:
    """The digest's entries in their order, each with its paper: one query, if they are stored."""
    stored = list(with_summaries(digest.entries.select_related("paper")))
    if not stored and (packed := _rows(digest)):
        stored = entries_of_rows(digest, packed, 1)
        load_texts(stored)
        papers = [entry.paper_id for entry in stored]
        written = shown_summaries().filter(paper__in=papers, language=digest.profile.language)
        summaries = {summary.paper_id: summary for summary in written.reverse()}
        chips = dict(Chips.objects.filter(paper__in=papers).values_list("paper_id", "chips"))
        for entry in stored:
            entry.chips = chips.get(entry.paper_id, ())
            if summary := summaries.get(entry.paper_id):
                entry.gist, entry.gist_html = summary.gist, summary.gist_html
                entry.summarised_at = summary.finished_at
    return stored


def further_matches(digest: Digest, first: Sequence[DigestEntry]) -> list[DigestEntry]:
    """The papers that matched beyond the entries, in order.

    They have no texts: `load_texts` gets them for the few that a page shows. A digest from weeks
    past has none.
    """
    if not first or first[0].pk is None:
        return []
    return entries_of_rows(digest, _rows(digest), len(first) + 1)


def _rows(digest: Digest) -> list[dict[str, Any]]:
    further = getattr(digest, "further", None)
    return further.rows if further else []


def entries_of_rows(
    digest: Digest | None, rows: Iterable[dict[str, Any]], rank: int
) -> list[DigestEntry]:
    """Matches stored as rows, as entries without texts, ranked from `rank` on."""
    bare = Paper.objects.defer("abstract", "abstract_html", "title_html")
    papers = bare.in_bulk([row["paper"] for row in rows])
    entries: list[DigestEntry] = []
    for row in rows:
        if row["paper"] in papers:
            columns: dict[str, Any] = row | {
                "paper": papers[row["paper"]],
                "rank": rank + len(entries),
            }
            keywords = columns.pop("keywords", None)
            for name in ("marks", "chips"):  # which rows packed by older versions have
                columns.pop(name, None)
            entry = DigestEntry(digest=digest, **columns)
            entry.keywords = keywords
            entries.append(entry)
    return entries


def load_texts(shown: Iterable[DigestEntry]) -> None:
    """Read title and abstract of entries that are not stored, and make their matches."""
    bare = [entry for entry in shown if entry.pk is None]
    papers = Paper.objects.in_bulk([entry.paper_id for entry in bare])
    for entry in bare:
        entry.paper = papers.get(entry.paper_id, entry.paper)
    if further := [entry for entry in bare if entry.keywords is not None]:
        _make_matches(further)


def _make_matches(entries: Sequence[DigestEntry]) -> None:
    """Make the matches of a digest's further papers by its feed's present rules."""
    try:
        rules = read_settings(entries[0].digest.profile).rules()
    except ProfileError:
        return  # it is not built again either
    scorer = Scorer([rules])
    for entry in entries:
        paper = entry.paper
        names = tuple(paper.author_names)
        candidate = Candidate(paper.arxiv_id, paper.title, paper.abstract, authors=names)
        entry.matches = scorer.matches(0, candidate)


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


def home_feed(reader: User | AnonymousUser) -> Profile | None:
    """Return the feed that a reader created first: their home page."""
    if reader.pk is None:
        return None
    return Profile.objects.filter(owner=reader.pk).order_by("created_at", "pk").first()


def profiles(visitor: User | AnonymousUser) -> QuerySet[Profile]:
    """Every profile that a visitor may see, with the date of its latest digest.

    The site's own comes first.
    """
    mine = Digest.objects.filter(profile=OuterRef("pk")).order_by("-date")
    return (
        Profile.visible_to(visitor)
        .select_related("owner")
        .order_by("-is_site", "name", "pk")
        .annotate(
            latest=Subquery(mine.values("date")[:1]), matched=Subquery(mine.values("matched")[:1])
        )
    )

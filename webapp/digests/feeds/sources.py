"""What feeds are made of: digests of the site and of profiles, and categories.

Each answers one small query with its stamp (whatever decides its bytes) and makes the feed only
when asked to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time
from datetime import date as Date
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from django.urls import reverse
from django.utils.dateparse import parse_datetime

from webapp.digests.models import Digest, DigestEntry, Gist, Profile
from webapp.digests.text_formats import score_terms
from webapp.papers.days import EASTERN
from webapp.papers.models import Announcement, AnnounceType, Listing, Paper
from webapp.papers.queries import categories
from webapp.papers.search import search
from webapp.ui.feed_http import FeedSource, Site
from webapp.ui.feeds import Feed, Item
from webapp.ui.markup import plain

DIGEST_DAYS = 5  # a reader who looks once a week misses nothing
CATEGORY_DAYS = 2  # a large category has some five hundred papers a day
ARXIV = "https://arxiv.org"
# Written out, because the ORM takes longer to compile these than the database to answer them, and
# feed readers ask all day. A digest knows its fingerprint; what a feed reads of papers beside it
# may have changed since, when arXiv's API gave more or a new version came.
_DIGESTS = """
    SELECT d.id, d.date, d.fingerprint, d.changed_at, p.name AS profile_name,
      p.slug AS profile_slug, MAX(a.enriched_at) AS enriched, SUM(a.version) AS versions
    FROM digests_digest d JOIN digests_profile p ON p.id = d.profile_id
    LEFT JOIN digests_digestentry e ON e.digest_id = d.id
    LEFT JOIN papers_paper a ON a.id = e.paper_id
    WHERE d.id IN (
      SELECT d.id FROM digests_digest d JOIN digests_profile p ON p.id = d.profile_id
      WHERE {whose} {when} ORDER BY d.date DESC LIMIT {days})
    GROUP BY d.id, p.id ORDER BY d.date DESC"""
_LISTINGS = """
    SELECT l.id, l.date, l.changed_at,
      MAX(a.enriched_at) AS enriched, SUM(a.version) AS versions, SUM(n.id) AS papers
    FROM papers_listing l
    LEFT JOIN papers_announcement n ON n.listing_id = l.id
    LEFT JOIN papers_paper a ON a.id = n.paper_id
    WHERE l.id IN (
      SELECT l.id FROM papers_listing l WHERE l.category = %s AND l.state = 'complete' {when}
      ORDER BY l.date DESC LIMIT {days})
    GROUP BY l.id ORDER BY l.date DESC"""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def digest_feed_source(slug: str | None, date: Date | None) -> FeedSource | None:
    """A profile's digests (the site's without a slug): the last days or one. None: no such list."""
    whose = "p.is_site" if slug is None else "p.slug = %s"
    when = "" if date is None else "AND d.date = %s"
    parameters = [one for one in (slug, date) if one is not None]
    digests: list[Any] = list(
        Digest.objects.raw(_DIGESTS.format(whose=whose, when=when, days=DIGEST_DAYS), parameters)
    )
    if digests:
        name, found_slug = digests[0].profile_name, digests[0].profile_slug
        updated = max(_later(one.changed_at, one.enriched) for one in digests)
    else:  # of a profile that has none yet
        profiles = Profile.objects.filter(**{"is_site": True} if slug is None else {"slug": slug})
        profile = profiles.first()
        if date is not None or (profile is None and slug is not None):
            return None
        name, found_slug = (profile.name, profile.slug) if profile else ("Assay", "site")
        updated = profile.created_at if profile else _NEVER
    stamp = tuple(
        (one.date, one.fingerprint, one.changed_at, str(one.enriched), one.versions)
        for one in digests
    )

    def feed(site: Site, address: str) -> Feed:
        home = "/" if slug is None else f"/p/{slug}/"
        if date:
            home = f"{'/digest' if slug is None else home.rstrip('/')}/{date}/"
        day = f", {date}" if date else ""
        return Feed(
            site.tag(f"digest/{found_slug}{f'/{date}' if date else ''}"),
            f"{name}{day}",
            f"arXiv papers by the profile “{name}”{day}: each with its score and the reason.",
            site.base + home,
            address,
            updated,
            _digest_items(site, digests),
        )

    return FeedSource((name, found_slug, updated, *stamp), updated, feed)


def _digest_items(site: Site, digests: Sequence[Digest]) -> list[Item]:
    ordered = DigestEntry.objects.filter(digest__in=digests).order_by("-digest__date", "rank")
    entries = list(ordered.select_related("paper", "digest"))
    summarised = [entry.paper_id for entry in entries if entry.gist_html]
    details = {(g.paper_id, g.html): g.details for g in Gist.objects.filter(paper__in=summarised)}
    return _without_duplicates(
        _digest_item(site, entry, details.get(_gist_key(entry), "")) for entry in entries
    )


def _gist_key(entry: DigestEntry) -> tuple[int, str]:
    """Which gist an entry shows: a paper has one for each language."""
    return entry.paper_id, entry.gist_html


def _digest_item(site: Site, entry: DigestEntry, details: str) -> Item:
    sample = "Sample day. " if entry.digest.is_sample else ""
    reason = f"{sample}Score {entry.score:g}: {score_terms(entry)}"
    return paper_item(
        site,
        entry.paper,
        announce_type=entry.announce_type,
        version=entry.version,
        reason=reason,
        abstract_html=entry.abstract_html,
        gist=entry.gist,
        gist_html=entry.gist_html,
        details=details,
        published=announcement_time(entry.digest.date),
        updated=entry.changed_at,
    )


def category_feed_source(category: str, date: Date | None) -> FeedSource | None:
    """What was announced in a category on its last days, or on one. None: no such list."""
    when = "" if date is None else "AND l.date = %s"
    parameters = [category] if date is None else [category, date]
    listings: list[Any] = list(
        Listing.objects.raw(_LISTINGS.format(when=when, days=CATEGORY_DAYS), parameters)
    )
    if not listings and (date is not None or category not in categories()):
        return None
    updated = max((_later(one.changed_at, one.enriched) for one in listings), default=_NEVER)
    stamp = tuple(
        (one.date, one.changed_at, str(one.enriched), one.versions, one.papers) for one in listings
    )

    def feed(site: Site, address: str) -> Feed:
        announced = Announcement.objects.filter(listing__in=listings)
        ordered = announced.order_by("-listing__date", "paper__arxiv_id").select_related(
            "paper", "listing"
        )
        page = reverse("digests:category", args=[category]) + (f"?date={date}" if date else "")
        day = f", {date}" if date else ""
        return Feed(
            site.tag(f"category/{category}{'/' + date.isoformat() if date else ''}"),
            f"{category}{day}",
            f"All papers arXiv announced in {category}{day}.",
            site.base + page,
            address,
            updated,
            _without_duplicates(_category_item(site, one) for one in ordered),
        )

    return FeedSource((category, *stamp), updated, feed)


def _category_item(site: Site, one: Announcement) -> Item:
    published = announcement_time(one.listing.date)
    sample = "Sample day. " if one.paper.is_sample else ""
    reason = f"{sample}Announced as {AnnounceType(one.type).label} in {one.listing.category}"
    updated = max(published, one.paper.enriched_at or published)
    return paper_item(
        site,
        one.paper,
        announce_type=one.type,
        version=one.version,
        reason=reason,
        abstract_html=one.paper.abstract_html,
        published=published,
        updated=updated,
    )


def search_feed_source(q: str, category: str) -> FeedSource | None:
    """The latest papers that hold everything a search asks for. None: it asks for nothing."""
    results = search(q, category or None, order="newest", relax=False)
    if results.query is None:
        return None
    papers = results.papers
    updated = max((_paper_time(paper) for paper in papers), default=_NEVER)
    stamp = tuple((paper.arxiv_id, paper.version, str(paper.enriched_at)) for paper in papers)
    name = " in ".join(one for one in (q, category) if one)

    def feed(site: Site, address: str) -> Feed:
        page = f"{reverse('papers:search')}?{urlencode({'q': q, 'category': category})}"
        return Feed(
            site.tag(f"search/{quote(name)}"),
            f"Search: {name}",
            f"The latest papers that hold “{name}”.",
            site.base + page,
            address,
            updated,
            [_search_item(site, one.paper, name, one.abstract_html) for one in results.marked()],
        )

    return FeedSource((name, *stamp), updated, feed)


def _search_item(site: Site, paper: Paper, name: str, abstract_html: str) -> Item:
    return paper_item(
        site,
        paper,
        announce_type=AnnounceType.NEW,
        version=paper.version,
        reason=f"Found by “{name}”",
        abstract_html=abstract_html,
        published=announcement_time(paper.announced_on or _NEVER.date()),
        updated=_paper_time(paper),
    )


def _paper_time(paper: Paper) -> datetime:
    """When what a feed says of a paper last changed."""
    announced = announcement_time(paper.announced_on or _NEVER.date())
    return max(announced, paper.enriched_at or announced)


def paper_item(
    site: Site,
    paper: Paper,
    *,
    announce_type: str,
    version: int,
    reason: str,
    abstract_html: str,
    gist: str = "",
    gist_html: str = "",
    details: str = "",
    published: datetime,
    updated: datetime,
) -> Item:
    """A paper in a feed: the same identity in every list; `reason` says why it is in this."""
    names = [author["name"] for author in paper.authors]
    link = site.base + reverse("papers:paper", args=[paper.arxiv_id])
    source = f"{ARXIV}/abs/{paper.arxiv_id}v{version}"
    known = (", ".join(paper.categories), announce_type, f"{paper.arxiv_id}v{version}")
    facts = " · ".join(filter(None, known))
    gist_paragraph = f"<p>{gist_html}</p>" if gist_html else ""
    html = (
        f"<p>{escape(', '.join(names))}</p>{gist_paragraph}<p>{abstract_html}</p>{details}"
        f"<p>{escape(reason)}<br>{escape(facts)}</p>"
        f'<p><a href="{escape(source)}">arXiv</a> · '
        f'<a href="{escape(f"{ARXIV}/pdf/{paper.arxiv_id}v{version}")}">PDF</a></p>'
    )
    return Item(
        site.tag(f"{paper.arxiv_id}v{version}"),
        link,
        source,
        f"{'Withdrawn: ' if paper.withdrawn else ''}{plain(paper.title)}",
        f"{gist} ({reason})" if gist else reason,
        html,
        names,
        paper.categories,
        published,
        updated,
    )


def _without_duplicates(items: Iterable[Item]) -> list[Item]:
    """The items without later ones of the same identity."""
    return list({item.id: item for item in reversed(list(items))}.values())[::-1]


def _later(changed: datetime, enriched: datetime | str | None) -> datetime:
    """The later of the two; SQLite gives the second as text."""
    moment = parse_datetime(enriched) if isinstance(enriched, str) else enriched
    return (
        max(changed, moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if moment else changed
    )


def announcement_time(date: Date) -> datetime:
    """When arXiv's feeds of `date` are built."""
    return datetime.combine(date, time(), EASTERN)

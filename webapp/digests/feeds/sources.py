"""What feeds are made of: digests of the site and of profiles, categories, and searches.

Each answers one small query with its stamp (whatever decides its bytes) and makes the items only
when asked to.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date as Date
from datetime import datetime, time
from html import escape
from urllib.parse import quote, urlencode

from django.db.models import Subquery
from django.urls import reverse

from webapp.digests.models import Digest, DigestEntry, Gist, Profile
from webapp.digests.text_formats import score_terms
from webapp.papers.days import EASTERN
from webapp.papers.models import Announcement, AnnounceType, Listing, Paper, PaperVersion
from webapp.papers.queries import categories
from webapp.papers.search import search
from webapp.ui.feed_http import NEVER, FeedSource, Site
from webapp.ui.feeds import Item
from webapp.ui.markup import plain

DIGEST_DAYS = 5  # a reader who looks once a week misses nothing
CATEGORY_DAYS = 2  # a large category has some five hundred papers a day
ARXIV = "https://arxiv.org"
# When the words or the facts of any paper last changed: a feed may show that one.
_PAPERS = {
    "words": Subquery(PaperVersion.objects.order_by("-pk").values("pk")[:1]),
    "facts": Subquery(
        Paper.objects.exclude(enriched_at=None).order_by("-enriched_at").values("enriched_at")[:1]
    ),
}


def digest_feed_source(slug: str | None, date: Date | None) -> FeedSource | None:
    """A profile's digests (the site's without a slug): the last days or one. None: no such list."""
    digests = Digest.objects.filter(**({"date": date} if date else {}))
    mine = digests.filter(**{"profile__slug": slug} if slug else {"profile__is_site": True})
    columns = ("pk", "changed_at", "fingerprint", *_PAPERS, "profile__name", "profile__slug")
    stamped = mine.order_by("-date").annotate(**_PAPERS)
    rows = tuple(stamped.values_list(*columns)[:DIGEST_DAYS])
    if rows:
        *_, name, found_slug = rows[0]
        updated = max(row[1] for row in rows)
    else:  # of a profile that has none yet
        profile = Profile.objects.filter(**{"slug": slug} if slug else {"is_site": True}).first()
        if date is not None or (profile is None and slug is not None):
            return None
        name, found_slug = (profile.name, profile.slug) if profile else ("Assay", "site")
        updated = profile.created_at if profile else NEVER
    day = f", {date}" if date else ""
    return FeedSource(
        f"digest/{found_slug}{f'/{date}' if date else ''}",
        f"{name}{day}",
        f"arXiv papers by the profile “{name}”{day}: each with its score and the reason.",
        _digest_page(slug, date),
        rows,
        lambda site: _digest_items(site, [row[0] for row in rows]),
        updated,
    )


def _digest_page(slug: str | None, date: Date | None) -> str:
    arguments: list[object] = [one for one in (slug, date) if one]
    names = {(False, False): "today", (False, True): "day", (True, False): "profile"}
    name = names.get((bool(slug), bool(date)), "profile-day")
    return reverse(f"digests:{name}", args=arguments)


def _digest_items(site: Site, digests: list[int]) -> list[Item]:
    ordered = DigestEntry.objects.filter(digest__in=digests).order_by("-digest__date", "rank")
    entries = list(ordered.select_related("paper", "digest"))
    summarised = [entry.paper_id for entry in entries if entry.gist_html]
    # A paper has a gist for each language.
    details = {(g.paper_id, g.html): g.details for g in Gist.objects.filter(paper__in=summarised)}
    return _without_duplicates(
        _digest_item(site, entry, details.get((entry.paper_id, entry.gist_html), ""))
        for entry in entries
    )


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
    listings = Listing.objects.filter(category=category, state=Listing.State.COMPLETE)
    days = listings.filter(**({"date": date} if date else {})).order_by("-date")
    columns = ("pk", "changed_at", *_PAPERS)
    rows = tuple(days.annotate(**_PAPERS).values_list(*columns)[:CATEGORY_DAYS])
    if not rows and (date is not None or category not in categories()):
        return None
    day = f", {date}" if date else ""
    return FeedSource(
        f"category/{category}{f'/{date}' if date else ''}",
        f"{category}{day}",
        f"All papers arXiv announced in {category}{day}.",
        reverse("digests:category", args=[category]) + (f"?date={date}" if date else ""),
        rows,
        lambda site: _category_items(site, [row[0] for row in rows]),
        max((row[1] for row in rows), default=NEVER),
    )


def _category_items(site: Site, listings: list[int]) -> list[Item]:
    announced = Announcement.objects.filter(listing__in=listings)
    ordered = announced.order_by("-listing__date", "paper__arxiv_id")
    rows = ordered.select_related("paper", "listing")
    return _without_duplicates(_category_item(site, one) for one in rows)


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
    name = " in ".join(one for one in (q, category) if one)
    return FeedSource(
        f"search/{quote(name)}",
        f"Search: {name}",
        f"The latest papers that hold “{name}”.",
        f"{reverse('papers:search')}?{urlencode({'q': q, 'category': category})}",
        tuple((paper.arxiv_id, paper.version, paper.enriched_at) for paper in results.papers),
        lambda site: [
            _search_item(site, one.paper, name, one.abstract_html) for one in results.marked()
        ],
    )


def _search_item(site: Site, paper: Paper, name: str, abstract_html: str) -> Item:
    return paper_item(
        site,
        paper,
        announce_type=AnnounceType.NEW,
        version=paper.version,
        reason=f"Found by “{name}”",
        abstract_html=abstract_html,
        published=announcement_time(paper.announced_on or NEVER.date()),
        updated=_paper_time(paper),
    )


def _paper_time(paper: Paper) -> datetime:
    """When what a feed says of a paper last changed."""
    announced = announcement_time(paper.announced_on or NEVER.date())
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


def announcement_time(date: Date) -> datetime:
    """When arXiv's feeds of `date` are built."""
    return datetime.combine(date, time(), EASTERN)

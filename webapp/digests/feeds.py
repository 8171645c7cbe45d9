"""The feeds of digests, categories and searches, and all feeds as OPML.

Each list makes one small query for its stamp (all that its bytes depend on), and its items only
when they are needed.
"""

from collections.abc import Iterable
from datetime import date as Date
from datetime import datetime, time
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.digests.lookup import profile_at
from webapp.digests.models import Digest, DigestEntry, Gist, Profile
from webapp.digests.templatetags.digests import day_address, feed_address, profile_address
from webapp.digests.text_formats import score_terms
from webapp.limits import spend, visitor
from webapp.papers.days import EASTERN
from webapp.papers.models import Announcement, AnnounceType, Listing
from webapp.papers.queries import categories
from webapp.papers.search import search as find
from webapp.ui import feed_http
from webapp.ui.feed_http import NEVER, FeedSource, Site
from webapp.ui.feeds import Item, opml
from webapp.ui.markup import plain
from webapp.ui.pages import reader_of, respond_public

DIGEST_DAYS = 5  # a reader who looks once a week misses nothing
CATEGORY_DAYS = 2  # a large category has some five hundred papers a day
ARXIV = "https://arxiv.org"
NO_LIST = "There is no such list."
# In SQL for speed: feed readers poll all day, and the ORM takes longer to compile these than the
# database to answer them. `words` and `facts`: the last change of any paper's text or metadata.
_PAPERS = """
    (SELECT max(id) FROM papers_paperversion) AS words,
    (SELECT max(enriched_at) FROM papers_paper) AS facts"""
_DIGESTS = """
    SELECT d.id, d.fingerprint, d.changed_at, {papers},
        p.name AS profile_name, p.slug AS profile_slug,
        p.owner_id IS NOT NULL AND NOT p.is_published AS is_private
    FROM digests_digest d JOIN digests_profile p ON p.id = d.profile_id
    WHERE {whose} {when} ORDER BY d.date DESC LIMIT {days}"""
_LISTINGS = """
    SELECT l.id, l.changed_at, {papers},
        (SELECT sum(id) FROM papers_announcement WHERE listing_id = l.id) AS announced
    FROM papers_listing l
    WHERE l.category = %s AND l.state = 'complete' {when} ORDER BY l.date DESC LIMIT {days}"""


@require_safe
def digest(
    request: HttpRequest, suffix: str, slug: str | None = None, date: Date | None = None
) -> HttpResponse:
    """A profile's digests (the site's without a slug): the last days, or one.

    The feeds of a private profile need its key, because feed readers have no session.
    """
    key = request.GET.get("key", "")
    open_to_all = "p.owner_id IS NULL OR p.is_published"
    whose = f"p.slug = %s AND ({open_to_all} OR p.feed_key = %s)" if slug else "p.is_site"
    when = "AND d.date = %s" if date else ""
    statement = _DIGESTS.format(papers=_PAPERS, whose=whose, when=when, days=DIGEST_DAYS)
    digests: list[Any] = list(
        Digest.objects.raw(statement, [*((slug, key) if slug else ()), *((date,) if date else ())])
    )
    if digests:
        shown = Profile(name=digests[0].profile_name, slug=digests[0].profile_slug)
        shown.is_site = not slug
        is_private = bool(digests[0].is_private)
    elif date:
        raise Http404(NO_LIST)
    else:  # a profile without any digest so far
        shown = profile_at(slug, AnonymousUser(), key)
        is_private = shown.is_private
    name, day = shown.name, f", {date}" if date else ""
    source = FeedSource(
        f"digest/{shown.slug}{f'/{date}' if date else ''}",
        f"{name}{day}",
        f"arXiv papers by the profile “{name}”{day}: each with its score and the reason.",
        day_address(shown, date) if date else profile_address(shown),
        (name, *((one.pk, one.fingerprint, one.words, one.facts) for one in digests)),
        lambda site: _digest_items(site, digests),
        max((one.changed_at for one in digests), default=shown.created_at or NEVER),
        is_private,
    )
    return feed_http.respond(request, suffix, source)


def _digest_items(site: Site, digests: list[Digest]) -> list[Item]:
    ordered = DigestEntry.objects.filter(digest__in=digests).order_by("-digest__date", "rank")
    entries = list(ordered.select_related("paper", "digest"))
    summarised = [entry.paper_id for entry in entries if entry.gist_html]
    # A paper has a gist for each language.
    details = {(g.paper_id, g.html): g.details for g in Gist.objects.filter(paper__in=summarised)}
    return _without_duplicates(
        paper_item(
            site,
            entry,
            f"Score {entry.score:g}: {score_terms(entry)}",
            entry.digest.date,
            details.get((entry.paper_id, entry.gist_html), ""),
        )
        for entry in entries
    )


@require_safe
def category(request: HttpRequest, category: str, suffix: str) -> HttpResponse:
    """What was announced in a category: the last days, or that of `?date=`."""
    wanted = request.GET.get("date", "")
    try:
        date = Date.fromisoformat(wanted) if wanted else None
    except ValueError:
        raise Http404(f"{wanted[:40]!r} is not a day; write it in the form 2026-03-02.") from None
    when = "AND l.date = %s" if date else ""
    statement = _LISTINGS.format(papers=_PAPERS, when=when, days=CATEGORY_DAYS)
    parameters = [one for one in (category, date) if one]
    listings: list[Any] = list(Listing.objects.raw(statement, parameters))
    if not listings and (date is not None or category not in categories()):
        raise Http404(NO_LIST)
    day = f", {date}" if date else ""
    source = FeedSource(
        f"category/{category}{f'/{date}' if date else ''}",
        f"{category}{day}",
        f"All papers arXiv announced in {category}{day}.",
        reverse("digests:category", args=[category]) + (f"?date={date}" if date else ""),
        tuple((one.pk, one.changed_at, one.announced, one.words, one.facts) for one in listings),
        lambda site: _category_items(site, listings),
        max((one.changed_at for one in listings), default=NEVER),
    )
    return feed_http.respond(request, suffix, source)


def _category_items(site: Site, listings: list[Listing]) -> list[Item]:
    announced = Announcement.objects.filter(listing__in=listings)
    ordered = announced.order_by("-listing__date", "paper__arxiv_id")
    rows = ordered.select_related("paper", "listing")
    return _without_duplicates(
        paper_item(
            site,
            DigestEntry(paper=one.paper, announce_type=one.type, version=one.version),
            f"Announced as {AnnounceType(one.type).label} in {one.listing.category}",
            one.listing.date,
        )
        for one in rows
    )


@require_safe
def search(request: HttpRequest, suffix: str) -> HttpResponse:
    """The latest papers that match every term of a search, or if none does, that have some words.

    404 for one that asks for nothing.
    """
    q, category = request.GET.get("q", "").strip(), request.GET.get("category", "").strip()[:32]
    spend("searches", visitor(request))
    results = find(q, category or None, order="newest", relax=False)
    if results.query is None:
        raise Http404(NO_LIST)
    name = " in ".join(one for one in (q, category) if one)
    reason = f"Found by “{name}”"
    if not results.papers:
        results = find(q, category or None, order="newest")
        reason = f"Has some words of “{name}”"
    source = FeedSource(
        f"search/{quote(name)}",
        f"Search: {name}",
        f"The latest papers that hold “{name}”.",
        f"{reverse('papers:search')}?{urlencode({'q': q, 'category': category})}",
        tuple((paper.arxiv_id, paper.version, paper.enriched_at) for paper in results.papers),
        lambda site: [
            paper_item(
                site,
                DigestEntry(paper=one.paper, announce_type="new", abstract_html=one.abstract_html),
                reason,
            )
            for one in results.marked()
        ],
    )
    return feed_http.respond(request, suffix, source)


@require_safe
def subscriptions(request: HttpRequest) -> HttpResponse:
    """Every feed of the site as OPML; for a signed-in reader with their private ones."""
    site, reader = feed_http.site(request), reader_of(request)
    profiles = list(Profile.visible_to(reader).order_by("-is_site", "name", "pk"))
    changed = max((one.updated_at for one in profiles), default=NEVER)
    digests = [
        (
            one.name,
            f"{site.base}{feed_address(one)}.rss{one.feed_query}",
            site.base + profile_address(one),
        )
        for one in profiles
    ]
    listed = [
        (name, f"{site.base}/category/{name}.rss", f"{site.base}/category/{name}/")
        for name in categories()
    ]
    body = opml("Assay", changed, {"Digests": digests, "Categories": listed})
    is_mine = reader.pk is not None

    def respond() -> HttpResponse:
        return feed_http.as_response(body, "text/x-opml", changed, is_private=is_mine)

    return respond() if is_mine else respond_public(request, body, respond)


def paper_item(
    site: Site, entry: DigestEntry, reason: str, day: Date | None = None, details: str = ""
) -> Item:
    """A paper in a feed, with the same id in every feed; `reason` says why it is in this one.

    Fields that the entry, which need not be stored, leaves empty come from the paper. `details` is
    the summary without its gist, as HTML.
    """
    paper = entry.paper
    reason = f"{'Sample day. ' if paper.is_sample else ''}{reason}"
    number = f"{paper.arxiv_id}v{entry.version or paper.version}"
    names = paper.author_names
    facts = " · ".join(filter(None, (", ".join(paper.categories), entry.announce_type, number)))
    gist = f"<p>{entry.gist_html}</p>" if entry.gist_html else ""
    html = (
        f"<p>{escape(', '.join(names))}</p>{gist}"
        f"<p>{entry.abstract_html or paper.abstract_html}</p>{details}"
        f"<p>{escape(reason)}<br>{escape(facts)}</p>"
        f'<p><a href="{escape(f"{ARXIV}/abs/{number}")}">arXiv</a> · '
        f'<a href="{escape(f"{ARXIV}/pdf/{number}")}">PDF</a></p>'
    )
    if code := paper.repository:
        html = f'{html.removesuffix("</p>")} · <a href="{escape(code)}">Code</a></p>'
    # When arXiv's feeds of that day are built.
    published = datetime.combine(day or paper.announced_on or NEVER.date(), time(), EASTERN)
    return Item(
        site.tag(number),
        site.base + reverse("papers:paper", args=[paper.arxiv_id]),
        f"{ARXIV}/abs/{number}",
        plain(paper.marked_title),
        f"{entry.gist} ({reason})" if entry.gist else reason,
        html,
        names,
        paper.categories,
        published,
        entry.changed_at or max(published, paper.enriched_at or published),
    )


def _without_duplicates(items: Iterable[Item]) -> list[Item]:
    """The items without later ones of the same id."""
    return list({item.id: item for item in reversed(list(items))}.values())[::-1]

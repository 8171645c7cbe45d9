"""The feeds of digests, categories and searches, and all feeds as OPML.

Each list is kept under the revisions of what it shows, and read only when one was raised.
"""

from collections.abc import Iterable
from datetime import date as Date
from datetime import datetime, time
from html import escape
from itertools import groupby
from urllib.parse import quote, urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from webapp.core.limits import spend, visitor
from webapp.core.revisions import revision
from webapp.digests.entries import with_summaries
from webapp.digests.lookup import profile_at
from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.digests.queries import digest_entries
from webapp.digests.templatetags.digests import day_address, feed_address, profile_address
from webapp.digests.text_formats import Parts, method_texts, parted, reasons
from webapp.papers.days import EASTERN
from webapp.papers.models import Announcement, AnnounceType, Listing
from webapp.papers.queries import categories
from webapp.papers.search import SEARCHED
from webapp.papers.search import search as find
from webapp.papers.search.marking import MarkedPaper
from webapp.summaries.queries import details, shown_summaries
from webapp.ui import feed_http
from webapp.ui.feed_http import NEVER, FeedSource, Site
from webapp.ui.feeds import Item, opml
from webapp.ui.markup import plain
from webapp.ui.pages import reader_of, respond_public

DIGEST_DAYS = 5  # a reader who looks once a week misses nothing
CATEGORY_DAYS = 2  # a large category has some five hundred papers a day
ARXIV = "https://arxiv.org"
NO_LIST = "There is no such list."


@require_safe
def digest(
    request: HttpRequest, suffix: str, slug: str | None = None, date: Date | None = None
) -> HttpResponse:
    """A profile's digests (the site's without a slug): the last days, or one.

    The feeds of a private profile need its key, because feed readers have no session.
    """
    shown = revision(f"profile:{slug or ''}", "papers", "gists")
    # The key is part of the address, so what is kept for it is for whoever has it.
    key = request.GET.get("key", "")
    return feed_http.respond(request, suffix, shown, lambda: _digest_source(slug, date, key))


def _digest_source(slug: str | None, date: Date | None, key: str) -> FeedSource:
    profile = profile_at(slug, AnonymousUser(), key)
    stored = Digest.objects.filter(profile=profile) if profile.pk else Digest.objects.none()
    digests = list((stored.filter(date=date) if date else stored.order_by("-date"))[:DIGEST_DAYS])
    if date and not digests:
        raise Http404(NO_LIST)
    name, day = profile.name, f", {date}" if date else ""
    return FeedSource(
        f"digest/{profile.slug}{f'/{date}' if date else ''}",
        f"{name}{day}",
        f"arXiv papers in “{name}”{day}, each with why it is there.",
        day_address(profile, date) if date else profile_address(profile),
        lambda site: _digest_items(site, profile, digests),
        max((digest.changed_at for digest in digests), default=profile.created_at or NEVER),
        profile.is_private,
    )


def _digest_items(site: Site, profile: Profile, digests: list[Digest]) -> list[Item]:
    ordered = DigestEntry.objects.filter(digest__in=digests).order_by("-digest__date", "rank")
    entries = list(with_summaries(ordered.select_related("paper")))
    if not entries and len(digests) == 1:  # a day weeks past
        entries = digest_entries(digests[0])
    # Joined to every entry, the digest and its profile would take half of the time.
    by_key = {digest.pk: digest for digest in digests}
    for digest in digests:
        digest.profile = profile
    for entry in entries:
        entry.digest = by_key[entry.digest_id]
    summarised = [entry.paper_id for entry in entries if entry.gist]
    written = shown_summaries().filter(paper__in=summarised, language=profile.language)
    # The last of each paper.
    papers = {entry.paper_id: entry.paper for entry in entries}
    details_of = {
        summary.paper_id: details(summary, papers[summary.paper_id])
        for summary in written.reverse().defer("content")
    }
    items: list[Item] = []
    for digest, entries_of_day in groupby(entries, key=lambda entry: entry.digest):
        parts = parted(entries_of_day)
        for entry in parts.listed:
            text = details_of.get(entry.paper_id, "")
            items.append(paper_item(site, entry, reasons(entry), digest.date, text))
        if parts.lower or parts.nearest:
            items.append(_folded_item(site, digest, parts))
    return _without_duplicates(items)


def _folded_item(site: Site, digest: Digest, parts: Parts) -> Item:
    """Return one item for the papers of a day that are folded."""
    headings = {
        gettext("Lower matches"): parts.lower,
        gettext("Closest other papers"): parts.nearest,
    }
    counts = ", ".join(f"{name}: {len(papers)}" for name, papers in headings.items() if papers)
    if not parts.listed:
        nothing = gettext("Nothing close today") if digest.liked else gettext("No match today")
        counts = f"{nothing}. {counts}"
    lists = "".join(
        f"<h2>{escape(heading)}</h2><ul>{''.join(_link(site, entry) for entry in papers)}</ul>"
        for heading, papers in headings.items()
        if papers
    )
    return Item(
        site.tag(f"digest/{digest.profile.slug}/{digest.date}/folded"),
        site.base + day_address(digest.profile, digest.date),
        site.base + day_address(digest.profile, digest.date),
        f"{counts} ({digest.date})",
        counts,
        lists,
        ["Assay"],
        [],
        datetime.combine(digest.date, time(), EASTERN),
        digest.changed_at,
    )


def _link(site: Site, entry: DigestEntry) -> str:
    address = site.base + entry.paper.path
    return f'<li><a href="{escape(address)}">{escape(plain(entry.paper.marked_title))}</a></li>'


@require_safe
def category(request: HttpRequest, category: str, suffix: str) -> HttpResponse:
    """Return the feed of a category's announcements: the last days, or the day in `?date=`."""
    day = request.GET.get("date", "")
    try:
        date = Date.fromisoformat(day) if day else None
    except ValueError:
        raise Http404(f"{day[:40]!r} is not a day; write it in the form 2026-03-02.") from None
    shown = revision("papers", "listings")
    return feed_http.respond(request, suffix, shown, lambda: _category_source(category, date))


def _category_source(category: str, date: Date | None) -> FeedSource:
    complete = Listing.objects.filter(category=category, state=Listing.State.COMPLETE)
    shown = complete.filter(date=date) if date else complete.order_by("-date")
    listings = list(shown[:CATEGORY_DAYS])
    if not listings and (date is not None or category not in categories()):
        raise Http404(NO_LIST)
    day = f", {date}" if date else ""
    return FeedSource(
        f"category/{category}{f'/{date}' if date else ''}",
        f"{category}{day}",
        f"All papers arXiv announced in {category}{day}.",
        reverse("digests:category", args=[category]) + (f"?date={date}" if date else ""),
        lambda site: _category_items(site, listings),
        max((listing.changed_at for listing in listings), default=NEVER),
    )


def _category_items(site: Site, listings: list[Listing]) -> list[Item]:
    announced = Announcement.objects.filter(listing__in=listings)
    ordered = announced.order_by("-listing__date", "paper__arxiv_id")
    rows = ordered.select_related("paper", "listing")
    return _without_duplicates(
        paper_item(
            site,
            DigestEntry(paper=row.paper, announce_type=row.type, version=row.version),
            f"Announced as {AnnounceType(row.type).label} in {row.listing.category}",
            row.listing.date,
        )
        for row in rows
    )


@require_safe
def search(request: HttpRequest, suffix: str) -> HttpResponse:
    """The latest papers that match every term of a search, or if none does, that have some words.

    404 for one that asks for nothing, or for what a search does not have.
    """
    return feed_http.respond(request, suffix, revision(*SEARCHED), lambda: _search_source(request))


def _search_source(request: HttpRequest) -> FeedSource:
    q, category = request.GET.get("q", "").strip(), request.GET.get("category", "").strip()[:32]
    spend("searches", visitor(request))
    results = find(q, category or None, order="newest", relax=False)
    if results.query is None:  # a feed has no reader, so a reader's own fields are refused, too
        raise Http404(results.problem or NO_LIST)
    name = " in ".join(word for word in (q, category) if word)
    reason = f"Found by “{name}”"
    if not results.papers:
        results = find(q, category or None, order="newest")
        reason = f"Has some words of “{name}”"
    return FeedSource(
        f"search/{quote(name)}",
        f"Search: {name}",
        f"The latest papers that hold “{name}”.",
        f"{reverse('papers:search')}?{urlencode({'q': q, 'category': category})}",
        lambda site: [paper_item(site, _as_entry(result), reason) for result in results.marked()],
    )


def _as_entry(result: MarkedPaper) -> DigestEntry:
    """Return a search result as an unsaved entry, its matched words marked."""
    entry = DigestEntry(paper=result.paper, announce_type="new")
    entry.abstract_html = result.abstract_html
    return entry


@require_safe
def opml_of_feeds(request: HttpRequest) -> HttpResponse:
    """Every feed of the site as OPML; for a signed-in reader with their private ones."""
    reader = reader_of(request)
    if reader.pk is not None:
        return _opml(request, reader)
    shown = (feed_http.site(request), revision("profiles", "listings"))
    return respond_public(request, shown, lambda: _opml(request, reader))


def _opml(request: HttpRequest, reader: User | AnonymousUser) -> HttpResponse:
    site = feed_http.site(request)
    profiles = list(Profile.visible_to(reader).order_by("-is_site", "name", "pk"))
    changed = max((profile.updated_at for profile in profiles), default=NEVER)
    digests = [
        (
            profile.name,
            f"{site.base}{feed_address(profile)}.rss{profile.feed_query}",
            site.base + profile_address(profile),
        )
        for profile in profiles
    ]
    listed = [
        (name, f"{site.base}/category/{name}.rss", f"{site.base}/category/{name}/")
        for name in categories()
    ]
    body = opml("Assay", changed, {"Digests": digests, "Categories": listed})
    is_mine = reader.pk is not None
    return feed_http.as_response(body, "text/x-opml", changed, is_private=is_mine)


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
    methods = ", ".join(method_texts(entry))
    carried = f"<p>Runnable here: {escape(methods)}</p>" if methods else ""
    quote = entry.quote
    quoted = f"<blockquote>{quote.html}</blockquote>" if quote else ""
    html = (
        f"<p>{escape(', '.join(names))}</p>{gist}"
        f"{quoted}<p>{entry.abstract_html}</p>{details}"
        f"<p>{escape(reason)}<br>{escape(facts)}</p>{carried}"
        f'<p><a href="{escape(f"{ARXIV}/abs/{number}")}">arXiv</a> · '
        f'<a href="{escape(f"{ARXIV}/pdf/{number}")}">PDF</a></p>'
    )
    if code := paper.repository:
        html = f'{html.removesuffix("</p>")} · <a href="{escape(code)}">Code</a></p>'
    # When arXiv's feeds of that day are built.
    published = datetime.combine(day or paper.announced_on or NEVER.date(), time(), EASTERN)
    return Item(
        site.tag(number),
        site.base + paper.path,
        f"{ARXIV}/abs/{number}",
        plain(paper.marked_title),
        f"{entry.sentence} ({reason})",
        html,
        names,
        paper.categories,
        published,
        max(filter(None, (entry.changed_at, entry.summarised_at)))
        if entry.changed_at
        else max(published, paper.enriched_at or published),
        plain(paper.abstract),
    )


def _without_duplicates(items: Iterable[Item]) -> list[Item]:
    """Return the items without later ones that repeat an id."""
    return list({item.id: item for item in reversed(list(items))}.values())[::-1]

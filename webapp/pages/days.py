"""The pages of a day, a digest and a category's announcements; and the list of feeds."""

from datetime import date as Date

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.core.revisions import revision
from webapp.digests import queries
from webapp.digests.daily import categories_to_fetch
from webapp.digests.filters import ORDERS, VIEWS, Filters, facets
from webapp.digests.lookup import profile_at
from webapp.digests.models import DayToBuild
from webapp.digests.text_formats import parted
from webapp.learning.preferences import SURE
from webapp.operate.failures import failing
from webapp.papers.days import eastern_date, now
from webapp.papers.models import Listing
from webapp.papers.queries import announced_on, categories, dates
from webapp.papers.search import search
from webapp.summaries.client import Server
from webapp.ui.pages import reader_of, respond, respond_shared

PAPERS_A_PAGE = 50
FEEDS_A_PAGE = 50
INTAKE = ("site.poll", "site.enrich", "site.build")  # the tasks without which no paper comes


@require_safe
def digest(request: HttpRequest, slug: str | None = None, date: Date | None = None) -> HttpResponse:
    """Show a day of a feed, or the latest.

    Without a slug, the latest is the reader's first feed, or the site's for those without one; a
    dated day is the site's. Anonymous readers get it from memory until something on it changes.
    """
    reader = reader_of(request)
    address = ""
    if slug:
        profile_at(slug, reader)  # 404 where it is another's own
    elif date is None and (home := queries.home_feed(reader)):
        slug, address = home.slug, reverse("digests:profile", args=[home.slug])
    listings = f"listings:{date}" if date else "listings"
    scopes = (f"profile:{slug or ''}", listings, "sample", "gists", "failures")
    revisions = revision(*scopes)
    shown = (revisions, Server.configured() is not None)
    # If no task has ever failed, nothing is looked up.
    has_failed = any(scope == "failures" for scope, _token in revisions) and not date
    return respond_shared(
        request, shown, lambda: _render_digest(request, slug, date, has_failed), address
    )


def _render_digest(
    request: HttpRequest, slug: str | None, date: Date | None, has_failed: bool
) -> HttpResponse:
    digest = queries.digest_at(slug, date)
    if digest is None:
        return _no_digest(request, slug, date)
    first = queries.digest_entries(digest)
    entries = [*first, *queries.further_matches(digest, first)]
    filters = Filters.read(request.GET)
    filtered = filters.apply(entries)
    parts = parted(filtered)
    # A learned model may add papers beyond the feed's size: they stay on the first page.
    a_page = max(digest.profile.size, sum(not entry.also_mentioned for entry in first))
    page = Paginator(parts.listed, a_page).get_page(request.GET.get("page"))
    shown = list(page.object_list)
    # At the end of the list, folded.
    lower = [] if page.has_next() else parts.lower
    queries.load_texts([*shown, *lower, *parts.nearest])
    # Only the latest day says what is missing after it.
    shown_days = {"date": digest.date} if date else {"date__gte": digest.date}
    fetched = Listing.objects.filter(**shown_days, category__in=digest.profile.categories)
    listings = list(fetched.order_by("date", "category"))
    context = {
        "digest": digest,
        "date": digest.date,
        "profile": digest.profile,
        "entries": entries,
        "is_packed": bool(first) and first[0].pk is None,
        "sure": SURE,
        "page": page,
        "shown": shown,
        "found": len(filtered),
        "number_listed": len(parts.listed),
        "lower": lower,
        "nearest": parts.nearest,
        "nothing_listed": not parts.listed,
        "filters": filters,
        "facets": facets(request.GET, filters, entries),
        "orders": ORDERS.items(),
        "views": VIEWS.items(),
        "listings": [row for row in listings if row.date == digest.date],
        "late": [] if date else queries.incomplete_after(listings, digest.date),
        "fetching_fails": failing(*INTAKE).first() if has_failed else None,
        "previous": digest.previous,
        "next": digest.next,
    }
    if not digest.sampled:
        context["sample"] = None  # saves the query of the context processor
    return render(request, "pages/day.html", context)


def _no_digest(request: HttpRequest, slug: str | None, date: Date | None) -> HttpResponse:
    """A day without a digest: why, and the nearest days that have one."""
    profile = profile_at(slug, reader_of(request))
    near = queries.neighbouring_dates(profile, date) if date and profile.pk else (None, None)
    context = {
        "date": date,
        "today": eastern_date(now()),
        "fetching_fails": failing(*INTAKE).first(),
        "building": DayToBuild.objects.filter(**{"date": date} if date else {}).exists(),
        "profile": profile,
        "previous": near[0],
        "next": near[1],
        "listings": Listing.objects.filter(date=date) if date else queries.last_polls(),
    }
    response = render(request, "pages/day.html", context, status=404 if date else 200)
    response["Cache-Control"] = "no-store"  # it says when each category was last asked for
    return response


@require_safe
def category(request: HttpRequest, category: str) -> HttpResponse:
    """Everything announced in one category on a day, in arXiv's order."""
    day = request.GET.get("date", "")
    shown = revision("papers", "listings", "sample")
    return respond_shared(request, shown, lambda: _category_page(request, category, day))


def _category_page(request: HttpRequest, category: str, chosen: str) -> HttpResponse:
    days = dates(category=category)
    date = next((day for day in days if chosen in ("", day.isoformat())), None)
    papers = announced_on(date, [category]) if date else []
    papers.sort(
        key=lambda announced: (announced.announce_type.precedence, announced.paper.arxiv_id)
    )
    page = Paginator(papers, PAPERS_A_PAGE).get_page(request.GET.get("page"))
    index = days.index(date) if date else 0
    # A row links to its paper's category also where it came by another that this site fetches.
    elsewhere = search(f"cat:{category}", relax=False).count if not days else 0
    context = {
        "category": category,
        "elsewhere": elsewhere,
        "date": date,
        "wanted": chosen,
        "page": page,
        "previous": days[index + 1] if date and index + 1 < len(days) else None,
        "next": days[index - 1] if date and index > 0 else None,
        "listing": Listing.objects.filter(category=category, date=date).first() if date else None,
        # A profile may be private, but what the site fetches is on the page of the intake.
        "awaited": not days and category in categories_to_fetch(),
    }
    status = 200 if date or elsewhere else 404
    return render(request, "pages/category.html", context, status=status)


@require_safe
def feeds(request: HttpRequest) -> HttpResponse:
    """List the visitor's feeds, the site's and published ones, and those of categories."""

    def listed() -> HttpResponse:
        visible = queries.profiles(reader_of(request))
        page = Paginator(visible, FEEDS_A_PAGE).get_page(request.GET.get("page"))
        context = {"profiles": page, "page": page, "categories": categories()}
        return render(request, "pages/feeds.html", context)

    shown = revision("profiles", "digests", "listings", "sample", "failures")
    return respond(request, shown, listed)

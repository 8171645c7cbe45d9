"""The feeds of digests and categories, and all feeds as OPML."""

from datetime import date as Date

from django.db.models import Max
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.digests.feeds import sources
from webapp.digests.models import Profile
from webapp.digests.templatetags.digests import feed_address, profile_address
from webapp.papers.queries import categories
from webapp.ui import feed_http
from webapp.ui.feeds import opml
from webapp.ui.pages import respond_public


@require_safe
def digest(
    request: HttpRequest, suffix: str, slug: str | None = None, date: Date | None = None
) -> HttpResponse:
    """The site's digests or a profile's: the last days, or one."""
    return feed_http.respond(request, suffix, sources.digest_feed_source(slug, date))


@require_safe
def category(request: HttpRequest, category: str, suffix: str) -> HttpResponse:
    """What was announced in a category: the last days, or that of `?date=`."""
    wanted = request.GET.get("date", "")
    try:
        date = Date.fromisoformat(wanted) if wanted else None
    except ValueError:
        raise Http404(f"{wanted[:40]!r} is not a day; write it in the form 2026-03-02.") from None
    return feed_http.respond(request, suffix, sources.category_feed_source(category, date))


@require_safe
def search(request: HttpRequest, suffix: str) -> HttpResponse:
    """The latest papers that a search finds; 404 for one that asks for nothing."""
    q, category = request.GET.get("q", "").strip(), request.GET.get("category", "").strip()[:32]
    return feed_http.respond(request, suffix, sources.search_feed_source(q, category))


@require_safe
def subscriptions(request: HttpRequest) -> HttpResponse:
    """Every feed of the site as OPML."""
    site = feed_http.site(request)
    changed = Profile.objects.aggregate(changed=Max("updated_at"))["changed"] or feed_http.NEVER
    digests = [
        (one.name, f"{site.base}{feed_address(one)}.rss", site.base + profile_address(one))
        for one in Profile.objects.order_by("-is_site", "name", "pk")
    ]
    listed = [
        (name, f"{site.base}/category/{name}.rss", f"{site.base}/category/{name}/")
        for name in categories()
    ]
    body = opml("Assay", changed, {"Digests": digests, "Categories": listed})
    return respond_public(request, body, lambda: feed_http.public(body, "text/x-opml", changed))

"""Feeds of methods: the papers about one."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from methods.spec import Method
from webapp.catalog.models import MethodLink
from webapp.core.revisions import revision
from webapp.digests.feeds import paper_item
from webapp.digests.models import DigestEntry
from webapp.ui import feed_http
from webapp.ui.feed_http import FeedSource, Site
from webapp.ui.feeds import Item

ITEMS = 50


@require_safe
def papers(request: HttpRequest, method: Method, suffix: str) -> HttpResponse:
    """Return the feed of papers about a method, newest first."""

    def items(site: Site) -> list[Item]:
        counting = MethodLink.objects.filter(MethodLink.counting(), method=method.slug)
        latest = counting.filter(paper__announced_on__isnull=False).select_related("paper")
        links = latest.order_by("-paper__announced_on", "-paper__arxiv_id")[:ITEMS]
        return [_item(site, method, link) for link in links]

    title = f"Papers about {method.title}"
    home = reverse("catalog:method", args=[method.slug])
    about = f"{title}, as Assay reads and measures them."
    source = FeedSource(f"method/{method.slug}", title, about, home, items)
    return feed_http.respond(request, suffix, revision("methods", "papers"), lambda: source)


def _item(site: Site, method: Method, link: MethodLink) -> Item:
    phrases = ", ".join(f"“{piece['words']}”" for piece in link.evidence[:3])
    reason = f"{link.get_relation_display().capitalize()}: {method.title}. {phrases}".strip()
    return paper_item(site, DigestEntry(paper=link.paper), reason)

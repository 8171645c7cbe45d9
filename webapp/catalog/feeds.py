"""Feeds of methods: the papers about one, and what was measured of it."""

from collections.abc import Callable
from heapq import nlargest
from operator import attrgetter

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from methods.spec import Method
from webapp.catalog.comparable import best, comparisons, is_ours
from webapp.catalog.measured import Measurement
from webapp.catalog.models import MethodLink
from webapp.catalog.queries import Carried
from webapp.core.revisions import revision
from webapp.digests.feeds import paper_item
from webapp.digests.models import DigestEntry
from webapp.ui import feed_http
from webapp.ui.feed_http import FeedSource, Site
from webapp.ui.feeds import Item

ITEMS = 50


@require_safe
def papers(request: HttpRequest, method: Method, suffix: str) -> HttpResponse:
    """The papers about a method, the latest first."""

    def items(site: Site) -> list[Item]:
        counting = MethodLink.objects.filter(MethodLink.counting(), method=method.slug)
        latest = counting.filter(paper__announced_on__isnull=False).select_related("paper")
        links = latest.order_by("-paper__announced_on", "-paper__arxiv_id")[:ITEMS]
        return [_paper_item(site, method, link) for link in links]

    source = _source("", f"Papers about {method.title}", method, items)
    return _respond(request, suffix, source)


@require_safe
def measurements(request: HttpRequest, method: Method, suffix: str) -> HttpResponse:
    """Return the feed of a method's current measurements, newest first."""

    def items(site: Site) -> list[Item]:
        latest = nlargest(ITEMS, Carried(method).standing, key=attrgetter("row.measured_at"))
        return [_measurement_item(site, method, measurement) for measurement in latest]

    source = _source("measurements", f"Measurements of {method.title}", method, items)
    return _respond(request, suffix, source)


def _source(
    name: str, title: str, method: Method | None, items: Callable[[Site], list[Item]]
) -> FeedSource:
    """A list of a method, or of all where it has none."""
    home = reverse("catalog:method", args=[method.slug]) if method else reverse("catalog:methods")
    about = f"{title}, as Assay reads and measures them."
    name = f"method/{method.slug}/{name}".rstrip("/") if method else name
    return FeedSource(name, title, about, home, items)


def _respond(request: HttpRequest, suffix: str, source: FeedSource) -> HttpResponse:
    return feed_http.respond(request, suffix, revision("methods", "papers"), lambda: source)


def _paper_item(site: Site, method: Method, link: MethodLink) -> Item:
    phrases = ", ".join(f"“{piece['words']}”" for piece in link.evidence[:3])
    reason = f"{link.get_relation_display().capitalize()}: {method.title}. {phrases}".strip()
    return paper_item(site, DigestEntry(paper=link.paper), reason)


def _measurement_item(site: Site, method: Method, measurement: Measurement) -> Item:
    figure = best(filter(is_ours, comparisons(measurement)))
    outcome = figure.text if figure else f"no gain was shown, {measurement.where}"
    return site.item(
        f"measurement:{measurement.run.pk}:{measurement.series.name}",
        measurement.run.get_absolute_url(),
        f"{method.title}: {measurement.series.title}",
        f"{measurement.series.title}: {outcome}. Version {measurement.row.version}.",
        at=measurement.row.measured_at,
        words=[f"{method.slug}.{measurement.run.benchmark}"],
    )

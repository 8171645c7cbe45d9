"""Feeds of methods: the papers about one, what was measured of it, the verdicts on its claims."""

from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from heapq import nlargest
from html import escape
from operator import attrgetter

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from assay_common.quantities import number
from methods.spec import Method
from webapp.catalog import queries
from webapp.catalog.comparable import best, comparisons, is_ours
from webapp.catalog.measured import Answered, Measurement
from webapp.catalog.models import MethodLink
from webapp.catalog.queries import Carried
from webapp.digests.feeds import paper_item
from webapp.digests.models import DigestEntry
from webapp.ui import feed_http
from webapp.ui.feed_http import NEVER, FeedSource, Site
from webapp.ui.feeds import Item
from webapp.ui.revisions import revision

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
    """What stands measured of a method, the last measured first."""

    def items(site: Site) -> list[Item]:
        latest = nlargest(ITEMS, Carried(method).standing, key=attrgetter("row.measured_at"))
        return [_measurement_item(site, method, one) for one in latest]

    source = _source("measurements", f"Measurements of {method.title}", method, items)
    return _respond(request, suffix, source)


@require_safe
def verdicts(request: HttpRequest, suffix: str, method: Method | None = None) -> HttpResponse:
    """The verdicts on the claims of a method's source, or of all methods, the newest first."""

    def items(site: Site) -> list[Item]:
        carried = [Carried(method)] if method else queries.all_carried()
        judged = [
            (one.method, answered, _judged_at(one, answered))
            for one in carried
            for answered in one.answers
            if answered.verdict.word
        ]
        newest = nlargest(ITEMS, judged, key=lambda row: (row[2], row[1].claim.id))
        return [_verdict_item(site, *row) for row in newest]

    title = f"Verdicts on {method.title}" if method else "New verdicts"
    return _respond(request, suffix, _source("verdicts", title, method, items))


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
    words = ", ".join(f"“{one['words']}”" for one in link.evidence[:3])
    reason = f"{link.get_relation_display().capitalize()}: {method.title}. {words}".strip()
    return paper_item(site, DigestEntry(paper=link.paper), reason)


def _measurement_item(site: Site, method: Method, one: Measurement) -> Item:
    found = best(filter(is_ours, comparisons(one)))
    outcome = found.text if found else f"no gain was shown, {one.where}"
    return site.item(
        f"measurement:{one.run.pk}:{one.series.name}",
        one.run.get_absolute_url(),
        f"{method.title}: {one.series.title}",
        f"{one.series.title}: {outcome}. Version {one.row.version}.",
        at=one.row.measured_at,
        words=[f"{method.slug}.{one.run.benchmark}"],
    )


def _judged_at(carried: Carried, answered: Answered) -> datetime:
    """When a verdict became what it is; one without a measurement is as old as the first of all."""
    if answered.measurement:
        return answered.measurement.row.measured_at
    return min((one.row.measured_at for one in carried.standing), default=NEVER)


def _verdict_item(site: Site, method: Method, one: Answered, at: datetime) -> Item:
    where = one.measurement.where if one.measurement else ""
    name = f"{method.slug}:{one.claim.id}:{where}:{one.verdict.word}"
    measured = ""
    if one.figure and one.measurement:  # what was counted, the reason says
        unit = one.unit if one.unit == "×" else f" {one.unit}"
        low, high = number(one.figure.low), number(one.figure.high)
        measured = f"Measured {number(one.figure.value)}{unit} ({low} to {high}) on {where}. "
    summary = f"{measured}{one.verdict.word}: {one.verdict.reason}. {one.claim.finding}".strip()
    return site.item(
        f"verdict:{sha256(name.encode()).hexdigest()[:24]}",
        reverse("catalog:method", args=[method.slug]) + "#claims",
        f"{str(one.verdict.word).capitalize()}: {one.claim.text} ({method.title})",
        summary,
        at=at,
        words=[method.slug, str(one.verdict.word)],
        html=f"<p>{escape(one.claim.text)}</p>",
    )

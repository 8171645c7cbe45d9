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
from webapp.core.revisions import revision
from webapp.digests.feeds import paper_item
from webapp.digests.models import DigestEntry
from webapp.ui import feed_http
from webapp.ui.feed_http import NEVER, FeedSource, Site
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
    """What stands measured of a method, the last measured first."""

    def items(site: Site) -> list[Item]:
        latest = nlargest(ITEMS, Carried(method).standing, key=attrgetter("row.measured_at"))
        return [_measurement_item(site, method, measurement) for measurement in latest]

    source = _source("measurements", f"Measurements of {method.title}", method, items)
    return _respond(request, suffix, source)


@require_safe
def verdicts(request: HttpRequest, suffix: str, method: Method | None = None) -> HttpResponse:
    """The verdicts on the claims of a method's source, or of all methods, the newest first."""

    def items(site: Site) -> list[Item]:
        carried = [Carried(method)] if method else queries.all_carried()
        judged = [
            (of_method.method, answered, _judged_at(of_method, answered))
            for of_method in carried
            for answered in of_method.answers
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
    words = ", ".join(f"“{piece['words']}”" for piece in link.evidence[:3])
    reason = f"{link.get_relation_display().capitalize()}: {method.title}. {words}".strip()
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


def _judged_at(carried: Carried, answered: Answered) -> datetime:
    """When a verdict became what it is; one without a measurement is as old as the first of all."""
    if answered.measurement:
        return answered.measurement.row.measured_at
    return min((measurement.row.measured_at for measurement in carried.standing), default=NEVER)


def _verdict_item(site: Site, method: Method, answered: Answered, at: datetime) -> Item:
    where = answered.measurement.where if answered.measurement else ""
    name = f"{method.slug}:{answered.claim.id}:{where}:{answered.verdict.word}"
    measured = ""
    if answered.figure and answered.measurement:  # what was counted, the reason says
        unit = answered.unit if answered.unit == "×" else f" {answered.unit}"
        low, high = number(answered.figure.low), number(answered.figure.high)
        measured = f"Measured {number(answered.figure.value)}{unit} ({low} to {high}) on {where}. "
    verdict, claim = answered.verdict, answered.claim
    summary = f"{measured}{verdict.word}: {verdict.reason}. {claim.finding}".strip()
    return site.item(
        f"verdict:{sha256(name.encode()).hexdigest()[:24]}",
        reverse("catalog:method", args=[method.slug]) + "#claims",
        f"{str(answered.verdict.word).capitalize()}: {answered.claim.text} ({method.title})",
        summary,
        at=at,
        words=[method.slug, str(answered.verdict.word)],
        html=f"<p>{escape(answered.claim.text)}</p>",
    )

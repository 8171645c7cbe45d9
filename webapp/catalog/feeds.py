"""Feeds of methods: the papers about one, what was measured of it, the verdicts on its claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from html import escape

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from methods import registry
from methods.charts import number
from methods.spec import Method
from webapp.catalog import queries
from webapp.catalog.measured import Answered, Measurement, best
from webapp.catalog.models import MethodLink
from webapp.catalog.queries import Carried
from webapp.digests.feeds.sources import announcement_time, paper_item
from webapp.ui import feed_http
from webapp.ui.feed_http import FeedSource, Site
from webapp.ui.feeds import Feed, Item

ITEMS = 50
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@require_safe
def papers(request: HttpRequest, slug: str, suffix: str) -> HttpResponse:
    """The papers about a method, the latest first."""
    method = _method(slug)
    counting = MethodLink.objects.filter(MethodLink.counting(), method=slug)
    latest = counting.filter(paper__announced_on__isnull=False).select_related("paper")
    links = list(latest.order_by("-paper__announced_on", "-paper__arxiv_id")[:ITEMS])
    updated = max((_announced(link) for link in links), default=_NEVER)

    def items(site: Site) -> list[Item]:
        return [_paper_item(site, method, link) for link in links]

    stamp = tuple((one.pk, one.relation, one.paper.version, one.paper.enriched_at) for one in links)
    title = f"Papers about {method.title}"
    return _List(f"method/{slug}", title, slug, updated, stamp, items).respond(request, suffix)


@require_safe
def measurements(request: HttpRequest, slug: str, suffix: str) -> HttpResponse:
    """What stands measured of a method, the last measured first."""
    carried = Carried(_method(slug))
    found = _latest_first(carried.standing)
    updated = max((_ended(one) for one in found), default=_NEVER)

    def items(site: Site) -> list[Item]:
        return [_measurement_item(site, carried.method, one) for one in found]

    title = f"Measurements of {carried.method.title}"
    stamp = tuple((str(one.run.pk), one.series.name) for one in found)
    name = f"method/{slug}/measurements"
    return _List(name, title, slug, updated, stamp, items).respond(request, suffix)


@require_safe
def verdicts(request: HttpRequest, suffix: str, slug: str = "") -> HttpResponse:
    """The verdicts on the claims of a method's source, or of all methods, the newest first."""
    carried = [Carried(_method(slug))] if slug else queries.all_carried()
    judged = [
        (one.method, answered, _judged_at(one, answered))
        for one in carried
        for answered in one.answers
        if answered.verdict.word
    ]
    judged.sort(key=lambda row: (row[2], row[1].claim.id), reverse=True)
    judged = judged[:ITEMS]
    updated = max((at for _, _, at in judged), default=_NEVER)

    def items(site: Site) -> list[Item]:
        return [_verdict_item(site, *row) for row in judged]

    name = f"method/{slug}/verdicts" if slug else "verdicts"
    title = f"Verdicts on {carried[0].method.title}" if slug else "New verdicts"
    stamp = tuple((method.slug, one.claim.id, str(one.verdict), at) for method, one, at in judged)
    return _List(name, title, slug, updated, stamp, items).respond(request, suffix)


def _method(slug: str) -> Method:
    try:
        return registry.get(slug)
    except registry.UnknownNameError as error:
        raise Http404(str(error)) from error


@dataclass(frozen=True)
class _List:
    """A list of a method, or of all where it has none: `items` are written when asked for."""

    name: str
    title: str
    method: str
    updated: datetime
    stamp: tuple[object, ...]
    items: Callable[[Site], list[Item]]

    def respond(self, request: HttpRequest, suffix: str) -> HttpResponse:
        """The list as a feed."""
        page = (
            reverse("catalog:method", args=[self.method])
            if self.method
            else reverse("catalog:methods")
        )

        def feed(site: Site, address: str) -> Feed:
            return Feed(
                id=site.tag(self.name),
                title=self.title,
                description=f"{self.title}, as Assay reads and measures them.",
                home=site.base + page,
                address=address,
                updated=self.updated,
                items=self.items(site),
            )

        source = FeedSource((self.name, self.stamp), self.updated, feed)
        return feed_http.respond(request, suffix, source)


def _announced(link: MethodLink) -> datetime:
    day = link.paper.announced_on
    return announcement_time(day) if day else _NEVER


def _paper_item(site: Site, method: Method, link: MethodLink) -> Item:
    words = ", ".join(f"“{one['words']}”" for one in link.evidence[:3])
    return paper_item(
        site,
        link.paper,
        announce_type="",
        version=link.paper.version,
        reason=f"{link.get_relation_display().capitalize()}: {method.title}. {words}".strip(),
        abstract_html=link.paper.abstract_html,
        published=_announced(link),
        updated=max(_announced(link), link.paper.enriched_at or _NEVER),
    )


def _ended(measurement: Measurement) -> datetime:
    return measurement.at or _NEVER


def _latest_first(measurements: Iterable[Measurement]) -> list[Measurement]:
    return sorted(measurements, key=_ended, reverse=True)[:ITEMS]


def _measurement_item(site: Site, method: Method, one: Measurement) -> Item:
    address = site.base + reverse("runs:run", args=[one.run.pk])
    found = best([one])
    told = f"{found.ratio:.2f}× {found.word} at {found.x}" if found else "no gain was shown"
    summary = f"{one.series.title}: {told}. {one.where}, version {one.version}."
    return Item(
        id=site.tag(f"measurement:{one.run.pk}:{one.series.name}"),
        link=address,
        source=address,
        title=f"{method.title}: {one.series.title}",
        summary=summary,
        html=f"<p>{escape(summary)}</p>",
        authors=["Assay"],
        categories=[f"{method.slug}.{one.run.benchmark}"],
        published=_ended(one),
        updated=_ended(one),
    )


def _judged_at(carried: Carried, answered: Answered) -> datetime:
    """When a verdict became what it is; one without a measurement is as old as the first of all."""
    if answered.measurement:
        return _ended(answered.measurement)
    return min((_ended(one) for one in carried.standing), default=_NEVER)


def _verdict_item(site: Site, method: Method, one: Answered, at: datetime) -> Item:
    where = one.measurement.where if one.measurement else ""
    name = f"{method.slug}:{one.claim.id}:{where}:{one.verdict.word}"
    link = f"{site.base}{reverse('catalog:method', args=[method.slug])}#claims"
    measured = ""
    if one.figure:
        unit = one.unit if one.unit == "×" else f" {one.unit}"
        low, high = number(one.figure.low), number(one.figure.high)
        measured = f"Measured {number(one.figure.value)}{unit} ({low} to {high}) on {where}. "
    summary = f"{measured}{one.verdict.word}: {one.verdict.reason}. {one.claim.finding}".strip()
    return Item(
        id=site.tag(f"verdict:{sha256(name.encode()).hexdigest()[:24]}"),
        link=link,
        source=link,
        title=f"{str(one.verdict.word).capitalize()}: {one.claim.text} ({method.title})",
        summary=summary,
        html=f"<p>{escape(one.claim.text)}</p><p>{escape(summary)}</p>",
        authors=["Assay"],
        categories=[method.slug, str(one.verdict.word)],
        published=at,
        updated=at,
    )

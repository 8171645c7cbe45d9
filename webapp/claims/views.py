"""Quantities across papers: which there are, and what stored papers report of one."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.claims import queries
from webapp.claims.models import ReportedValue
from webapp.core.input import number_in
from webapp.core.revisions import revision
from webapp.papers.models import Paper
from webapp.ui import feed_http
from webapp.ui.feed_http import FeedSource, Site
from webapp.ui.feeds import FORMATS, Item
from webapp.ui.pages import attachment, respond

A_PAGE = 50
IN_FEED = 50
FILTERS = ("own", "q")
MAX_ROWS = 5000  # of a CSV file
COLUMNS = (
    *("arxiv_id", "title", "subject", "setting", "value", "unit", "own", "table", "address"),
)


@require_safe
def quantities(request: HttpRequest) -> HttpResponse:
    """Every quantity that stored papers report, the commonest first; or one of them."""
    asked = request.GET.get("benchmark") or request.GET.get("metric")
    page = _quantity if asked else _index
    return respond(request, revision("quantities", "papers", "sample"), lambda: page(request))


def _index(request: HttpRequest) -> HttpResponse:
    q = request.GET.get("q", "").strip()[:80]
    page = Paginator(queries.quantities(q), A_PAGE).get_page(request.GET.get("page"))
    return render(request, "claims/quantities.html", {"q": q, "page": page})


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> HttpResponse:
    """A file of rows under their columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_harmless(str(field)) for field in row] for row in rows)
    return attachment(text.getvalue(), "text/csv; charset=utf-8", "quantity.csv")


def _address(request: HttpRequest, paper: Paper) -> str:
    return request.build_absolute_uri(reverse("papers:paper", args=[paper.arxiv_id]))


def _quantity(request: HttpRequest) -> HttpResponse:
    benchmark, metric = request.GET.get("benchmark", ""), request.GET.get("metric", "")
    own = request.GET.get("own") == "1"
    order = "best" if request.GET.get("order") == "best" else "newest"
    q = request.GET.get("q", "").strip()[:80]
    values = queries.reported(benchmark, metric, order, own=own, text=q)
    page = Paginator(values, A_PAGE).get_page(number_in(request.GET.get("page", "")) or 1)
    query = {"benchmark": benchmark, "metric": metric}
    chosen = {name: value for name, value in (("own", "1" if own else ""), ("q", q)) if value}
    if not page.paginator.count and not chosen:
        raise Http404("No stored paper’s table reports this.")
    context = {
        "benchmark": benchmark,
        "metric": metric,
        "own": own,
        "q": q,
        "order": order,
        "orders": queries.ORDERS.items(),
        "page": page,
        "lines": queries.lines(page.object_list),
        "papers": values.values("paper").distinct().count(),
        "query": urlencode(query),
        "filtered": urlencode(query | chosen),
        "feeds": [(kind.suffix, kind.name, kind.media_type) for kind in FORMATS.values()],
    }
    return render(request, "claims/quantity.html", context)


@require_safe
def quantity_csv(request: HttpRequest) -> HttpResponse:
    """The values of a quantity as CSV, the newest first."""
    rows = (
        (
            *(value.paper.arxiv_id, value.paper.title, value.subject, value.setting, value.text),
            *(value.unit, int(value.is_own), value.table.number),
            f"{_address(request, value.paper)}#{line.cell}",
        )
        for line in queries.lines(_asked(request)[:MAX_ROWS])
        for value in [line.value]
    )
    return _csv(COLUMNS, rows)


def _harmless(text: str) -> str:
    """A field that no spreadsheet takes for a formula; signed numbers stay what they are."""
    is_number = re.fullmatch(r"[-+][\d.,]+%?", text)
    return f"'{text}" if text[:1] in set("=+-@\t\r") and not is_number else text


@require_safe
def quantity_feed(request: HttpRequest, suffix: str) -> HttpResponse:
    """The papers that newly report a quantity, one entry a table."""
    shown = revision("quantities", "papers")
    return feed_http.respond(request, suffix, shown, lambda: _feed(request))


def _feed(request: HttpRequest) -> FeedSource:
    values = _asked(request)
    benchmark, metric = request.GET["benchmark"], request.GET.get("metric", "")
    asked = {key: request.GET[key][:80] for key in FILTERS if request.GET.get(key)}
    query = urlencode({"benchmark": benchmark, "metric": metric} | asked)
    return FeedSource(
        f"quantity/{query}",
        f"{metric}: {benchmark}",
        f"What tables of papers report: {metric} on {benchmark}.",
        f"{reverse('claims:quantities')}?{query}",
        lambda site: _items(site, values),
    )


def _items(site: Site, values: QuerySet[ReportedValue]) -> list[Item]:
    tables: dict[int, list[ReportedValue]] = {}
    for value in values[: IN_FEED * 20]:
        tables.setdefault(value.table_id, []).append(value)
    return [_item(site, rows) for rows in list(tables.values())[:IN_FEED]]


def _item(site: Site, rows: list[ReportedValue]) -> Item:
    first, paper = rows[0], rows[0].paper
    said = "; ".join(
        f"{value.subject}{f' ({value.setting})' if value.setting else ''} {value.text}"
        for value in rows[:8]
    )
    return site.item(
        f"quantity:{paper.arxiv_id}v{first.table.reading.version}:{first.table.position}:"
        f"{first.benchmark}:{first.metric}",
        reverse("papers:paper", args=[paper.arxiv_id]) + f"#table-{first.table.position + 1}",
        f"{paper.title}: {first.table.number or 'table'}",
        said,
        at=first.table.reading.read_at,
        words=[first.benchmark, first.metric],
    )


def _asked(request: HttpRequest) -> QuerySet[ReportedValue]:
    """The values of the quantity in the query string; 404 where nothing reports it."""
    benchmark, metric = request.GET.get("benchmark", ""), request.GET.get("metric", "")
    own, text = request.GET.get("own") == "1", request.GET.get("q", "").strip()[:80]
    values = queries.reported(benchmark, metric, own=own, text=text)
    if not benchmark or not values.exists():
        raise Http404("No stored paper’s table reports this.")
    return values

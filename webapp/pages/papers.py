"""The pages of papers: one paper, the search, the audit of the intake."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import date as Date
from datetime import timedelta
from itertools import groupby
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from webapp.core import tasks
from webapp.core.input import number_in
from webapp.core.limits import spend, visitor
from webapp.core.revisions import revision
from webapp.digests.lookup import NotFoundError, check_version, find_paper
from webapp.learning import vector_index
from webapp.operate.failures import failing
from webapp.pages.days import INTAKE
from webapp.papers import citations, queries
from webapp.papers.changes import versions
from webapp.papers.days import eastern_date, now
from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import AnnounceType, Listing, Paper
from webapp.papers.search import SEARCHED, Order
from webapp.papers.search import search as find
from webapp.summaries.client import Server
from webapp.summaries.queries import summary_view
from webapp.ui.feeds import FORMATS
from webapp.ui.language import current_language
from webapp.ui.pages import for_readers, reader_of, respond, respond_shared

DAYS_A_PAGE = 7
STRIP_DAYS = 15


@require_safe
def paper(request: HttpRequest, arxiv_id: str) -> HttpResponse:
    """One paper: its text, its versions and what they changed, how to cite it."""
    identifier, version = parse_identifier(arxiv_id)
    if version and (stored := Paper.objects.filter(arxiv_id=identifier).first()):
        check_version(stored, version)
    if arxiv_id != identifier:  # one paper, one URL
        anchor = f"#v{version}" if version else ""
        return redirect(f"/papers/{identifier}/{anchor}")
    paper = find_paper(identifier)
    reader = reader_of(request)
    shown = (
        revision("papers", f"paper:{paper.pk}", "methods", "profile:", "sample", "failures"),
        Server.configured() is not None,
        # Forms are shown to readers, and others to the staff.
        (reader.is_authenticated, reader.is_staff),
    )
    return respond_shared(request, shown, lambda: _paper_page(request, paper))


def _paper_page(request: HttpRequest, paper: Paper) -> HttpResponse:
    view = summary_view(paper, request.GET.get("language", current_language()))
    context = {
        "paper": paper,
        "view": view,
        "published": citations.published(paper),
        "bibtex": citations.bibtex(paper),
        "versions": versions(paper),
    }
    response = render(request, "pages/paper.html", context)
    if view.under_way:
        response["Cache-Control"] = "no-store"  # its place in the queue depends on other papers
    return response


ORDERS: dict[Order, str] = {"relevance": "Most relevant", "newest": "Latest first"}
PERIODS = {"": "Any time", "7": "Last week", "31": "Last month", "366": "Last year"}


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """Search papers by words, authors, identifiers and categories.

    Anonymous readers get the same search from memory for as long as nothing was stored, for a day.
    """
    shown = (revision(*SEARCHED, "listings", "sample"), eastern_date(now()))
    return respond(request, shown, lambda: _search_page(request))


def _search_page(request: HttpRequest) -> HttpResponse:
    q = request.GET.get("q", "").strip()
    category = request.GET.get("category", "").strip()[:32]
    period = request.GET.get("period", "") if request.GET.get("period") in PERIODS else ""
    since = eastern_date(now()) - timedelta(days=int(period)) if period else None
    order: Order = "newest" if request.GET.get("order") == "newest" else "relevance"
    page = number_in(request.GET.get("page", "")) or 1
    if q or category:
        spend("searches", visitor(request))
    reader = request.user if isinstance(request.user, User) else None
    results = find(q, category or None, since, page, order, reader=reader)
    context = {
        "q": q,
        "category": category,
        "period": period,
        "results": results,
        "absent_version": _absent_version(q, results.papers),
        "marked": results.marked(),
        "categories": queries.categories(),
        "periods": PERIODS.items(),
        "order": order,
        "orders": ORDERS.items(),
        "feeds": [(form.suffix, form.name, form.media_type) for form in FORMATS.values()],
        "feed_query": urlencode(
            {"q": results.corrected or q} | ({"category": category} if category else {})
        ),
    }
    return render(request, "pages/search.html", context)


def _absent_version(q: str, papers: Sequence[Paper]) -> str:
    """Return an error message if the query asks for a version that its paper lacks, else ""."""
    with suppress(ValueError):
        identifier, version = parse_identifier(q)
        try:
            for paper in papers:
                if paper.arxiv_id == identifier:
                    check_version(paper, version)
        except NotFoundError as error:
            return str(error)
    return ""


@for_readers("POST")
def fetch_now(request: HttpRequest, reader: User) -> HttpResponse:
    """Have a worker ask arXiv for new papers; for the administrator."""
    if not reader.is_staff:
        raise PermissionDenied
    if tasks.send("site.poll", [now().timestamp()], lost="nothing is fetched"):
        messages.success(request, _("Asking arXiv now. New papers appear within minutes."))
    else:
        messages.error(request, _("The queue cannot be reached. Try again in a minute."))
    return redirect("papers:intake")


@require_safe
def intake(request: HttpRequest) -> HttpResponse:
    """The audit: what was requested from arXiv for every day and category, and the outcome."""
    # A poll that changed nothing raises no revision, but its time is shown.
    polled_at = Listing.objects.aggregate(latest=Max("polled_at"))["latest"]
    shown = (revision("listings", "sample", "failures"), polled_at)
    return respond(request, shown, lambda: _intake_page(request))


def _intake_page(request: HttpRequest) -> HttpResponse:
    dates = list(Listing.objects.order_by("-date").values_list("date", flat=True).distinct())
    chosen = request.GET.get("date", "")
    dates_shown = [day for day in dates if day.isoformat() == chosen] if chosen else dates
    page = Paginator(dates_shown, DAYS_A_PAGE).get_page(request.GET.get("page"))
    rows = Listing.objects.filter(date__in=list(page.object_list)).order_by("-date", "category")
    strip = dates[:STRIP_DAYS][::-1]
    context = {
        "page": page,
        "vectors": vector_index.progress() if reader_of(request).is_staff else None,
        "fetching_fails": failing(*INTAKE).first(),
        "wanted": chosen,
        "days": [(day, list(group)) for day, group in groupby(rows, key=lambda row: row.date)],
        "kinds": AnnounceType.values,
        "strip_dates": strip,
        "strip": _strip(strip),
    }
    return render(request, "pages/intake.html", context)


def _strip(dates: list[Date]) -> list[tuple[str, list[Listing | None]]]:
    """One row per category and one cell per date, over the last days."""
    cells = {(row.category, row.date): row for row in Listing.objects.filter(date__in=dates)}
    categories = sorted({category for category, _ in cells})
    return [(name, [cells.get((name, day)) for day in dates]) for name in categories]

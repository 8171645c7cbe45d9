"""How far the summaries of a day are."""

from datetime import date as Date

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.summaries import queries
from webapp.summaries.client import Server
from webapp.summaries.views import until_it_ends

PAPERS_A_PAGE = 100


@require_safe
def day(request: HttpRequest, date: Date) -> HttpResponse:
    """How far the summaries of a day's papers are; its live part alone for htmx."""
    batch = queries.of_day(date)
    page = Paginator(batch.rows, PAPERS_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "date": date,
        "batch": batch,
        "page": page,
        "model": Server.configured(),
        "several": len({row.language for row in batch.rows}) > 1,
    }
    if not request.headers.get("HX-Request"):
        return render(request, "pages/summaries.html", context)
    return until_it_ends(render(request, "pages/batch.html", context), batch.under_way)

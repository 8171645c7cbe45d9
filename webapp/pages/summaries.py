"""Progress of a day's summaries."""

from datetime import date as Date

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from webapp.core import tasks
from webapp.papers.models import Paper
from webapp.summaries import queries, queue
from webapp.summaries.client import Server
from webapp.summaries.models import Summary
from webapp.summaries.views import until_it_ends
from webapp.ui.pages import for_readers

PAPERS_A_PAGE = 100


@for_readers("POST")
def again(request: HttpRequest, reader: User, date: Date) -> HttpResponse:
    """Have all papers of a day that were summarised summarised by the model connected now."""
    server = Server.configured()
    if not reader.is_superuser or server is None:
        raise PermissionDenied
    by_language: dict[str, list[Paper]] = {}
    for row in queries.day_summaries(date).rows:
        if row.model != server.model or row.withheld or row.state == Summary.State.FAILED:
            by_language.setdefault(row.language, []).append(row.paper)
    waiting = sum(queue.again(papers, language, server) for language, papers in by_language.items())
    tasks.send("site.summaries", [], lost="the summaries wait for the next tick")
    requested = gettext("%(count)d summaries requested from %(model)s.")
    messages.success(request, requested % {"count": waiting, "model": server.model})
    return redirect("summaries:day", date)


@require_safe
def day(request: HttpRequest, date: Date) -> HttpResponse:
    """Show the progress of a day's summaries; htmx gets the live part alone."""
    batch = queries.day_summaries(date)
    page = Paginator(batch.rows, PAPERS_A_PAGE).get_page(request.GET.get("page"))
    server = Server.configured()
    context = {
        "date": date,
        "batch": batch,
        "page": page,
        "model": server,
        "others": any(
            row.model != server.model or row.withheld or row.state == Summary.State.FAILED
            for row in batch.rows
            if server
        ),
        "several": len({row.language for row in batch.rows}) > 1,
    }
    if not request.headers.get("HX-Request"):
        return render(request, "pages/summaries.html", context)
    return until_it_ends(render(request, "pages/batch.html", context), batch.under_way)

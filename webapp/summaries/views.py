"""Request a summary and follow its progress."""

from datetime import date as Date

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp import tasks
from webapp.papers.models import Paper
from webapp.summaries import queries, queue
from webapp.summaries.client import Server
from webapp.summaries.models import Summary
from webapp.ui.language import current_language
from webapp.ui.pages import for_readers

DONE = 286  # htmx: swap this in and stop polling
PAPERS_A_PAGE = 100


@require_safe
def summary(request: HttpRequest, arxiv_id: str) -> HttpResponse:
    """The summary section of a paper's page, which polls it while it is in progress."""
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    if not request.headers.get("HX-Request"):
        return redirect("papers:paper", arxiv_id)
    view = queries.of_paper(paper, request.GET.get("language", current_language()))
    response = render(request, "summaries/summary.html", {"paper": paper, "view": view})
    return _until_it_ends(response, view.under_way)


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
        return render(request, "summaries/day.html", context)
    return _until_it_ends(render(request, "summaries/batch.html", context), batch.under_way)


@for_readers("POST")
def ask(request: HttpRequest, _reader: User, arxiv_id: str) -> HttpResponse:
    """Have a paper summarised, or try a failed summary again."""
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    server = Server.configured()
    if server is None:
        messages.error(request, "No model is configured on this site.")
        return redirect("papers:paper", arxiv_id)
    language = request.POST.get("language", "")
    if language not in Summary.Language.values:
        language = Summary.Language.ENGLISH
    queue.request([paper], language, server)
    queue.retry(queue.asked([paper], language, server))
    tasks.send("site.summaries", [], lost="the summary waits for the next tick")
    messages.success(request, "Requested. The summary appears on this page when it is done.")
    return redirect(f"{reverse('papers:paper', args=[arxiv_id])}?language={language}#summary")


def _until_it_ends(response: HttpResponse, under_way: bool) -> HttpResponse:
    response["Cache-Control"] = "no-store"
    if not under_way:
        response.status_code = DONE
    return response

"""Request a summary and follow its progress."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.core import tasks
from webapp.core.limits import spend, visitor
from webapp.papers.models import Paper
from webapp.summaries import queries, queue
from webapp.summaries.client import Server
from webapp.summaries.models import Summary
from webapp.ui.language import current_language
from webapp.ui.pages import for_readers

MOST_WAITING = 100  # tasks of the site; what one reader asks for waits behind no more
DONE = 286  # htmx: swap this in and stop polling


@require_safe
def summary(request: HttpRequest, arxiv_id: str) -> HttpResponse:
    """The summary section of a paper's page, which polls it while it is in progress."""
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    if not request.headers.get("HX-Request"):
        return redirect("papers:paper", arxiv_id)
    view = queries.summary_view(paper, request.GET.get("language", current_language()))
    response = render(request, "summaries/summary.html", {"paper": paper, "view": view})
    return until_it_ends(response, view.under_way)


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
    spend("summaries", visitor(request))
    if "again" in request.POST:
        queue.again([paper], language, server)
    else:
        queue.request([paper], language, server)
        queue.retry(queue.asked([paper], language, server))
    queue.put_first(queue.asked([paper], language, server))
    tasks.send("site.summaries", [], lost="the summary waits for the next tick")
    messages.success(request, "Requested. The summary appears on this page when it is done.")
    return redirect(f"{reverse('papers:paper', args=[arxiv_id])}?language={language}#summary")


@for_readers("POST")
def cancel(request: HttpRequest, reader: User, arxiv_id: str) -> HttpResponse:
    """End a summary that waits or is being written."""
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    language = request.POST.get("language", "")
    under_way = Summary.objects.filter(paper=paper, language=language)
    if queue.cancel(under_way, by=reader.get_username()):
        messages.success(request, "Cancelled.")
    return redirect(f"{reverse('papers:paper', args=[arxiv_id])}?language={language}#summary")


@for_readers("POST")
def ask_for_tables(request: HttpRequest, _reader: User, arxiv_id: str) -> HttpResponse:
    """Have the tables of a paper read from arXiv's HTML."""
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    spend("tables", visitor(request))
    if tasks.send_if_room(
        "site.read_tables_of", [paper.pk], MOST_WAITING, lost="the tables are not read"
    ):
        messages.success(request, "Requested. The tables appear on this page once arXiv answers.")
    else:
        messages.error(request, "The site is busy. Please try again in a few minutes.")
    return redirect("papers:paper", arxiv_id)


def until_it_ends(response: HttpResponse, under_way: bool) -> HttpResponse:
    """The response to a page that polls it, which is told to stop once nothing is under way."""
    response["Cache-Control"] = "no-store"
    if not under_way:
        response.status_code = DONE
    return response

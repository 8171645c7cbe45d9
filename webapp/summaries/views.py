"""Asking for a summary, and watching it come."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from webapp.papers.models import Paper
from webapp.summaries import queries, queue
from webapp.summaries.client import Server
from webapp.summaries.models import Summary

DONE = 286  # htmx: show this, and ask no more


@require_safe
def summary(request: HttpRequest, arxiv_id: str) -> HttpResponse:
    """The summary's part of a paper's page, asked for again while it is under way."""
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    if not request.headers.get("HX-Request"):
        return redirect("papers:paper", arxiv_id)
    view = queries.of_paper(paper)
    response = render(request, "summaries/summary.html", {"paper": paper, "view": view})
    response["Cache-Control"] = "no-store"
    if not view.under_way:
        response.status_code = DONE
    return response


@require_POST
@login_required
def ask(request: HttpRequest, arxiv_id: str) -> HttpResponse:
    """Have a paper summarised, or try a failed summary again."""
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    server = Server.configured()
    if server is None:
        messages.error(request, "No model is configured on this site.")
    else:
        queue.request([paper], "en", server)
        failed = Summary.objects.filter(
            paper=paper, version=paper.version, model=server.model, state=Summary.State.FAILED
        )
        for row in failed:
            queue.retry(row.pk)
        messages.success(request, "Asked for. The summary appears on this page when it is done.")
    return redirect("papers:paper", arxiv_id)

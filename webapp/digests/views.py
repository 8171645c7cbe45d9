"""The archive of a feed, and the reasons why feeds do not list a paper."""

from contextlib import suppress

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_safe

from webapp.digests import queries
from webapp.digests.lookup import find_paper, profile_at
from webapp.digests.templatetags.digests import day_address
from webapp.digests.why_not import explain
from webapp.ui.pages import reader_of


@require_safe
def archive(request: HttpRequest) -> HttpResponse:
    """Show every day that has a digest, month by month; with `?date=`, that day."""
    profile = profile_at(request.GET.get("profile"), reader_of(request))
    with suppress(ValueError):
        if chosen := parse_date(request.GET.get("date", "")):
            return redirect(day_address(profile, chosen))
    context = {"profile": profile, "months": queries.months(profile) if profile.pk else []}
    return render(request, "digests/archive.html", context)


@require_safe
def why_not(request: HttpRequest, arxiv_id: str) -> HttpResponse:
    """Say for each feed of the reader, and the site's, why it does not list a paper."""
    paper = find_paper(arxiv_id)
    context = {"paper": paper, "explanations": explain(paper, reader_of(request))}
    return render(request, "digests/why_not.html", context)

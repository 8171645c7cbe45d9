"""The archive of a feed."""

from contextlib import suppress

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_safe

from webapp.digests import queries
from webapp.digests.lookup import profile_at
from webapp.digests.templatetags.digests import day_address
from webapp.ui.pages import reader_of


@require_safe
def archive(request: HttpRequest) -> HttpResponse:
    """Show every day that has a digest, month by month; with `?date=`, that day."""
    found = profile_at(request.GET.get("profile"), reader_of(request))
    with suppress(ValueError):
        if chosen := parse_date(request.GET.get("date", "")):
            return redirect(day_address(found, chosen))
    context = {"profile": found, "months": queries.months(found) if found.pk else []}
    return render(request, "digests/archive.html", context)

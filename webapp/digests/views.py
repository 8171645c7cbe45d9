"""The archive and the list of feeds."""

from contextlib import suppress

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_safe

from webapp.core.revisions import revision
from webapp.digests import queries
from webapp.digests.lookup import profile_at
from webapp.digests.models import Profile
from webapp.digests.profiles.views import PROFILES_A_PAGE
from webapp.digests.templatetags.digests import day_address
from webapp.papers.queries import categories
from webapp.ui.pages import reader_of, respond


@require_safe
def archive(request: HttpRequest) -> HttpResponse:
    """Every day that has a digest, month by month; with `?date=`, that day."""
    found = profile_at(request.GET.get("profile"), reader_of(request))
    with suppress(ValueError):
        if chosen := parse_date(request.GET.get("date", "")):
            return redirect(day_address(found, chosen))
    context = {"profile": found, "months": queries.months(found) if found.pk else []}
    return render(request, "digests/archive.html", context)


@require_safe
def feeds(request: HttpRequest) -> HttpResponse:
    """Every feed there is, in every format."""

    def listed() -> HttpResponse:
        seen = Profile.visible_to(reader_of(request)).order_by("-is_site", "name", "pk")
        page = Paginator(seen, PROFILES_A_PAGE).get_page(request.GET.get("page"))
        context = {"profiles": page, "page": page, "categories": categories()}
        return render(request, "digests/feeds.html", context)

    return respond(request, revision("profiles", "listings", "sample"), listed)

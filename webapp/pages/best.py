"""A profile's best papers since a day."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _

from webapp.core import tasks
from webapp.core.limits import of_reader, spend
from webapp.digests import queries
from webapp.digests.filters import Filters
from webapp.digests.models import BestSince, Profile
from webapp.digests.profiles.views import profile_to_change
from webapp.papers.days import now
from webapp.ui.pages import for_readers

SILENCE = timedelta(minutes=3)  # without progress, after which a search counts as stopped


@for_readers("GET", "HEAD", "POST")
def best_since(request: HttpRequest, reader: User, slug: str) -> HttpResponse:
    """A profile's best papers of all since a day, or the progress; for htmx only the latter."""
    profile = profile_to_change(reader, slug)
    search = BestSince.objects.filter(profile=profile).first()
    under_way = bool(search and not search.ended_at and timezone.now() - search.heard_at <= SILENCE)
    refused = ""
    if request.method == "POST" and not under_way:
        refused = _ask_for_best(reader, profile, request.POST.get("since", ""))
        if not refused:
            return redirect("digests:best-since", slug)
    entries = queries.entries_of_rows(None, search.rows, 1) if search and search.ended_at else []
    filters = Filters.read(request.GET)
    shown = filters.apply(entries)
    queries.load_texts(shown)
    context = {
        "profile": profile,
        "found": search,
        "entries": entries,
        "filters": filters,
        "shown": shown,
        "under_way": under_way,
        "refused": refused,
        "since": request.POST.get("since") or f"{now().year - 1}-01-01",
    }
    if not request.headers.get("HX-Request"):
        status = 422 if refused else 200
        return render(request, "pages/best.html", context, status=status)
    response = render(request, "pages/best_progress.html", context)
    response["Cache-Control"] = "no-store"
    if not under_way:
        response["HX-Refresh"] = "true"  # load the whole page, with the result
    return response


def _ask_for_best(reader: User, profile: Profile, written: str) -> str:
    """Have a worker search; returns an error message, or "" if it was asked."""
    try:
        since = parse_date(written)
    except ValueError:
        since = None
    if since is None:
        return _("Write the day in the form 2026-03-02.")
    spend("backlogs", of_reader(reader.pk))
    moment = timezone.now()
    times = {"since": since, "asked_at": moment, "heard_at": moment, "ended_at": None}
    defaults = times | {"scored": 0, "total": 0, "rows": []}
    BestSince.objects.update_or_create(profile=profile, defaults=defaults)
    if tasks.send("site.best_since", [profile.pk], lost="no search is started"):
        return ""
    BestSince.objects.filter(profile=profile).delete()
    return _("The queue cannot be reached. Try again in a minute.")

"""The pages of profiles: create, change and delete them, and the best papers of one since a day."""

from datetime import timedelta

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from webapp import tasks
from webapp.digests import queries
from webapp.digests.build import build
from webapp.digests.filters import Filters
from webapp.digests.models import BestSince, Profile
from webapp.digests.profiles.forms import ProfileForm, initial_of_search, lost_of_search
from webapp.digests.profiles.preview import DAYS, preview_profile
from webapp.digests.profiles.validation import ProfileError, rules_of, save_settings
from webapp.digests.scoring.scorer import Keyword, Rules
from webapp.papers.days import now
from webapp.papers.queries import dates
from webapp.ui.pages import for_readers

MAX_PROFILES = 20  # of one reader
SILENCE = timedelta(minutes=3)  # without progress, after which a search counts as stopped


@require_safe
def profiles(request: HttpRequest) -> HttpResponse:
    """The site's profile and the readers' own."""
    return render(request, "digests/profiles.html", {"profiles": queries.profiles()})


@for_readers("GET", "HEAD", "POST")
def new(request: HttpRequest, reader: User) -> HttpResponse:
    """Create a profile."""
    if Profile.objects.filter(owner=reader).count() >= MAX_PROFILES:
        most = _("The limit is %(most)d profiles. Delete one to create another.")
        messages.error(request, most % {"most": MAX_PROFILES})
        return redirect("digests:profiles")
    return _form(request, reader, None)


@for_readers("GET", "HEAD", "POST")
def edit(request: HttpRequest, reader: User, slug: str) -> HttpResponse:
    """Change or delete a profile of one's own; the staff may change the site's."""
    profile = _own_profile(reader, slug)
    if "delete" in request.POST and not profile.is_site:
        profile.delete()
        messages.success(request, _("“%(name)s” is deleted.") % {"name": profile.name})
        return redirect("digests:profiles")
    return _form(request, reader, profile)


def _own_profile(reader: User, slug: str) -> Profile:
    """A profile that the reader may change. Raises Http404 and PermissionDenied."""
    profile = get_object_or_404(Profile, slug=slug)
    if profile.owner_id != reader.pk and not (profile.is_site and reader.is_staff):
        raise PermissionDenied
    return profile


def _form(request: HttpRequest, reader: User, profile: Profile | None) -> HttpResponse:
    """The form with a preview of its effect, or a redirect once it is saved."""
    q, category = request.GET.get("q", ""), request.GET.get("category", "")
    initial = ProfileForm.initial_of(profile)
    if q or category:
        initial |= initial_of_search(q, category)
    form = ProfileForm(request.POST or None, initial=initial, label_suffix="")
    valid = form.is_bound and form.is_valid()
    if valid and "save" in request.POST:
        saved = _save(reader, profile, form)
        message = _("“%(name)s” is saved, and its latest days are ranked by it.")
        messages.success(request, message % {"name": saved.name})
        return redirect("digests:profile", saved.slug) if saved.owner else redirect("digests:today")
    changes = []
    if valid:
        rules = form.profile_settings.rules(profile.owner_id if profile else reader.pk)
        changes = preview_profile(profile, _rules(profile), rules)
    # How often each occurs in 1,000 papers, if it was counted.
    stored = [Keyword(**one) for one in profile.keywords] if profile else []
    keywords = form.profile_settings.keywords if valid else stored
    context = {
        "profile": profile,
        "form": form,
        "previewed": valid,
        "lost": lost_of_search(q),
        "frequencies": {one.keyword: one.frequency for one in keywords},
        "changes": changes,
    }
    status = 422 if form.is_bound and not valid else 200
    return render(request, "digests/profile_form.html", context, status=status)


def _save(reader: User, profile: Profile | None, form: ProfileForm) -> Profile:
    """Save the profile and build the days of its preview."""
    profile = profile or Profile(owner=reader)
    profile.counted_on = timezone.now().date()
    save_settings(profile, form.profile_settings)
    build(dates(DAYS), [profile])
    return profile


def _rules(profile: Profile | None) -> Rules | None:
    """The rules of the stored profile; None for a new or invalid one."""
    try:
        return rules_of(profile) if profile else None
    except ProfileError:
        return None


@for_readers("GET", "HEAD", "POST")
def best_since(request: HttpRequest, reader: User, slug: str) -> HttpResponse:
    """A profile's best papers of all since a day, or the progress; for htmx only the latter."""
    profile = _own_profile(reader, slug)
    found = BestSince.objects.filter(profile=profile).first()
    under_way = bool(found and not found.ended_at and timezone.now() - found.heard_at <= SILENCE)
    refused = ""
    if request.method == "POST" and not under_way:
        refused = _ask_for_best(profile, request.POST.get("since", ""))
        if not refused:
            return redirect("digests:best-since", slug)
    entries = queries.entries_of_rows(None, found.rows, 1) if found and found.ended_at else []
    filters = Filters.read(request.GET)
    shown = filters.apply(entries)
    queries.load_texts(shown)
    context = {
        "profile": profile,
        "found": found,
        "entries": entries,
        "filters": filters,
        "shown": shown,
        "under_way": under_way,
        "refused": refused,
        "since": request.POST.get("since") or f"{now().year - 1}-01-01",
    }
    if not request.headers.get("HX-Request"):
        status = 422 if refused else 200
        return render(request, "digests/best.html", context, status=status)
    response = render(request, "digests/best_progress.html", context)
    response["Cache-Control"] = "no-store"
    if not under_way:
        response["HX-Refresh"] = "true"  # load the whole page, with the result
    return response


def _ask_for_best(profile: Profile, written: str) -> str:
    """Have a worker search; returns an error message, or "" if it was asked."""
    try:
        since = parse_date(written)
    except ValueError:
        since = None
    if since is None:
        return _("Write the day in the form 2026-03-02.")
    moment = timezone.now()
    times = {"since": since, "asked_at": moment, "heard_at": moment, "ended_at": None}
    defaults = times | {"scored": 0, "total": 0, "rows": []}
    BestSince.objects.update_or_create(profile=profile, defaults=defaults)
    if tasks.send("site.best_since", [profile.pk], lost="no search is started"):
        return ""
    BestSince.objects.filter(profile=profile).delete()
    return _("The queue cannot be reached. Try again in a minute.")

"""The forms of feeds: create, import, change and delete them."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from webapp.core.hooks import Hook
from webapp.core.input import fingerprint
from webapp.digests.build import build
from webapp.digests.models import Profile, new_feed_key
from webapp.digests.profiles.forms import ProfileForm, initial_of_search, lost_of_search
from webapp.digests.profiles.preview import DAYS, preview_profile
from webapp.digests.profiles.seed_config import MAX_BYTES, read_config
from webapp.digests.profiles.validation import (
    ProfileError,
    ProfileSettings,
    load_rules,
    save_settings,
)
from webapp.digests.scoring.rules import Keyword, Rules
from webapp.learning.preferences import Learned
from webapp.papers.queries import dates
from webapp.ui.pages import for_readers

MAX_PROFILES = 20  # of one reader


@Hook
def model_for(_owner: int | None, _source: str, /) -> Learned | None:
    """Return what is learned from a reader, trained now if it is not stored."""
    return None


@require_safe
def moved(request: HttpRequest, place: str = "") -> HttpResponse:
    """Redirect an address of before feeds had their name."""
    query = request.META["QUERY_STRING"]
    return redirect(f"/feeds/{place}{'?' if query else ''}{query}", permanent=True)


@for_readers("POST")
def import_config(request: HttpRequest, reader: User) -> HttpResponse:
    """Create a feed from the config.json of arxiv_rss_bot."""
    file = request.FILES.get("config")
    try:
        if file is None:
            raise ProfileError({"file": [_("choose a config.json first")]})
        raw = file.read(MAX_BYTES + 1)
        settings = read_config(raw, _("arxiv_rss_bot"), Profile.Matching.SUBSTRING)
        profile = _create(reader, settings)
    except ProfileError as error:
        messages.error(request, _("Nothing was imported. %(error)s") % {"error": error})
        return redirect("digests:feeds")
    build(dates(DAYS), [profile])
    message = _("Imported %(keywords)d keywords. They match as they do in arxiv_rss_bot.")
    messages.success(request, message % {"keywords": len(settings.keywords)})
    return redirect("digests:profile", profile.slug)


@for_readers("GET", "HEAD", "POST")
def new(request: HttpRequest, reader: User) -> HttpResponse:
    """Create a feed."""
    if Profile.objects.filter(owner=reader).count() >= MAX_PROFILES:
        most = _("The limit is %(most)d feeds. Delete one to create another.")
        messages.error(request, most % {"most": MAX_PROFILES})
        return redirect("digests:feeds")
    return _form(request, reader, None)


@for_readers("GET", "HEAD", "POST")
def edit(request: HttpRequest, reader: User, slug: str) -> HttpResponse:
    """Change or delete a feed of one's own; the staff may change the site's."""
    profile = profile_to_change(reader, slug)
    if "delete" in request.POST and not profile.is_site:
        profile.delete()
        messages.success(request, _("“%(name)s” was deleted.") % {"name": profile.name})
        return redirect("digests:feeds")
    if "renew" in request.POST and profile.owner_id:
        profile.feed_key = new_feed_key()
        profile.save()
        messages.success(request, _("The feed has a new address. The old one no longer works."))
        return redirect("digests:profile-edit", slug)
    return _form(request, reader, profile)


def profile_to_change(reader: User, slug: str) -> Profile:
    """Return a feed that the reader may change. Raises Http404 and PermissionDenied."""
    profile = get_object_or_404(Profile.visible_to(reader), slug=slug)
    if profile.owner_id != reader.pk and not (profile.is_site and reader.is_staff):
        raise PermissionDenied
    return profile


def _form(request: HttpRequest, reader: User, profile: Profile | None) -> HttpResponse:
    """Show the form with a preview of its effect, or redirect once it is saved.

    A form that was opened before another window changed the feed is not saved at once.
    """
    q, category = request.GET.get("q", ""), request.GET.get("category", "")
    initial = ProfileForm.initial_values(profile)
    seen = fingerprint(initial)
    is_stale = profile is not None and request.POST.get("seen", seen) != seen
    if q or category:
        initial |= initial_of_search(q, category)
    owner = profile.owner_id if profile else reader.pk
    form = ProfileForm(request.POST or None, initial=initial, label_suffix="", owner=owner)
    valid = form.is_bound and form.is_valid()
    if valid and "save" in request.POST and not is_stale:
        try:
            saved = _save(reader, profile, form)
        except ProfileError as error:
            messages.error(request, str(error))
            return redirect("digests:feeds")
        message = _("“%(name)s” is saved.")
        messages.success(request, message % {"name": saved.name})
        return redirect("digests:profile", saved.slug)
    changes = []
    if valid:
        chosen = form.profile_settings
        learned = model_for(owner, chosen.learn_from) if chosen.ranking != "rules" else None
        changes = preview_profile(profile, _rules(profile), chosen.rules(learned))
    # Papers of 1,000 with each keyword, where they were counted.
    stored = [Keyword(**keyword) for keyword in profile.keywords] if profile else []
    keywords = form.profile_settings.keywords if valid else stored
    context = {
        "profile": profile,
        "form": form,
        "previewed": valid,
        "seen": seen,
        "is_stale": is_stale,
        "lost": lost_of_search(q),
        "frequencies": {keyword.keyword: keyword.frequency for keyword in keywords},
        "changes": changes,
    }
    status = 422 if form.is_bound and not valid else 409 if is_stale else 200
    return render(request, "digests/profile_form.html", context, status=status)


def _save(reader: User, profile: Profile | None, form: ProfileForm) -> Profile:
    """Save the feed and build the days of its preview. Raises ProfileError."""
    profile = profile or _create(reader, form.profile_settings)
    profile.counted_on = timezone.now().date()
    profile.is_published = form.cleaned_data["is_published"]
    save_settings(profile, form.profile_settings)
    if profile.ranking != Profile.Ranking.RULES:
        model_for(profile.owner_id, profile.learn_from)  # stored, so that `build` uses it
    build(dates(DAYS), [profile])
    return profile


def _create(reader: User, new: ProfileSettings) -> Profile:
    """Create a feed, or return the reader's feed with these settings: what is sent twice makes one.

    Raises ProfileError if the reader has as many feeds as are allowed.
    """
    with transaction.atomic():
        User.objects.select_for_update().get(pk=reader.pk)  # one request of a reader at a time
        feeds = Profile.objects.filter(owner=reader)
        if same := feeds.filter(**new.model_dump(mode="json")).first():
            return same
        if feeds.count() >= MAX_PROFILES:
            raise ProfileError({"feeds": [_("the limit is %(most)d") % {"most": MAX_PROFILES}]})
        profile = Profile(owner=reader)
        save_settings(profile, new)
        return profile


def _rules(profile: Profile | None) -> Rules | None:
    """Return the rules of the stored feed; None for a new or invalid one."""
    try:
        return load_rules(profile) if profile else None
    except ProfileError:
        return None

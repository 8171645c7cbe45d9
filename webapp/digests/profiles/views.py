"""The pages of profiles: create, change and delete them."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from webapp.core.hooks import Hook
from webapp.core.revisions import revision
from webapp.digests import queries
from webapp.digests.build import build
from webapp.digests.models import Profile, new_feed_key
from webapp.digests.profiles.forms import ProfileForm, initial_of_search, lost_of_search
from webapp.digests.profiles.preview import DAYS, preview_profile
from webapp.digests.profiles.validation import ProfileError, rules_of, save_settings
from webapp.digests.scoring.scorer import Keyword, Rules
from webapp.learning.preferences import Learned
from webapp.papers.queries import dates
from webapp.ui.pages import for_readers, reader_of, respond

MAX_PROFILES = 20  # of one reader
PROFILES_A_PAGE = 50


@Hook
def model_for(_owner: int | None, _source: str, /) -> Learned | None:
    """What is learned from a reader, trained now if it is not known."""
    return None


@require_safe
def profiles(request: HttpRequest) -> HttpResponse:
    """The site's profile, the visitor's own and those that others published, a page at a time."""

    def listed() -> HttpResponse:
        seen = queries.profiles(reader_of(request))
        page = Paginator(seen, PROFILES_A_PAGE).get_page(request.GET.get("page"))
        return render(request, "digests/profiles.html", {"profiles": page, "page": page})

    return respond(request, revision("profiles", "digests", "sample", "failures"), listed)


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
    profile = profile_to_change(reader, slug)
    if "delete" in request.POST and not profile.is_site:
        profile.delete()
        messages.success(request, _("“%(name)s” is deleted.") % {"name": profile.name})
        return redirect("digests:profiles")
    if "renew" in request.POST and profile.owner_id:
        profile.feed_key = new_feed_key()
        profile.save()
        messages.success(request, _("The feeds have new addresses. The old ones no longer work."))
        return redirect("digests:profile-edit", slug)
    return _form(request, reader, profile)


def profile_to_change(reader: User, slug: str) -> Profile:
    """A profile that the reader may change. Raises Http404 and PermissionDenied."""
    profile = get_object_or_404(Profile.visible_to(reader), slug=slug)
    if profile.owner_id != reader.pk and not (profile.is_site and reader.is_staff):
        raise PermissionDenied
    return profile


def _form(request: HttpRequest, reader: User, profile: Profile | None) -> HttpResponse:
    """The form with a preview of its effect, or a redirect once it is saved."""
    q, category = request.GET.get("q", ""), request.GET.get("category", "")
    initial = ProfileForm.initial_of(profile)
    if q or category:
        initial |= initial_of_search(q, category)
    owner = profile.owner_id if profile else reader.pk
    form = ProfileForm(request.POST or None, initial=initial, label_suffix="", owner=owner)
    valid = form.is_bound and form.is_valid()
    if valid and "save" in request.POST:
        saved = _save(reader, profile, form)
        message = _("“%(name)s” is saved, and its latest days are ranked by it.")
        messages.success(request, message % {"name": saved.name})
        return redirect("digests:profile", saved.slug) if saved.owner else redirect("digests:today")
    changes = []
    if valid:
        asked = form.profile_settings
        learned = model_for(owner, asked.learn_from) if asked.ranking != "rules" else None
        changes = preview_profile(profile, _rules(profile), asked.rules(learned))
    # How often each occurs in 1,000 papers, if it was counted.
    stored = [Keyword(**keyword) for keyword in profile.keywords] if profile else []
    keywords = form.profile_settings.keywords if valid else stored
    context = {
        "profile": profile,
        "form": form,
        "previewed": valid,
        "lost": lost_of_search(q),
        "frequencies": {keyword.keyword: keyword.frequency for keyword in keywords},
        "changes": changes,
    }
    status = 422 if form.is_bound and not valid else 200
    return render(request, "digests/profile_form.html", context, status=status)


def _save(reader: User, profile: Profile | None, form: ProfileForm) -> Profile:
    """Save the profile and build the days of its preview."""
    profile = profile or Profile(owner=reader)
    profile.counted_on = timezone.now().date()
    profile.is_published = form.cleaned_data["is_published"]
    save_settings(profile, form.profile_settings)
    if profile.ranking != Profile.Ranking.RULES:
        model_for(profile.owner_id, profile.learn_from)  # stored, so that `build` uses it
    build(dates(DAYS), [profile])
    return profile


def _rules(profile: Profile | None) -> Rules | None:
    """The rules of the stored profile; None for a new or invalid one."""
    try:
        return rules_of(profile) if profile else None
    except ProfileError:
        return None

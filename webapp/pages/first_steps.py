"""First steps: a profile from categories, phrases and liked papers, on one page."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.digests.profiles.forms import ProfileForm
from webapp.digests.profiles.preview import DAYS, preview_profile
from webapp.digests.profiles.validation import ProfileSettings, free_slug, save_settings
from webapp.digests.profiles.views import MAX_PROFILES
from webapp.digests.scoring.learned import SURE
from webapp.library.importing import ask_for, import_liked, named_in
from webapp.library.learning import model_for, signals, train
from webapp.library.references import TooMuchError, references
from webapp.limits import LimitReachedError
from webapp.operate.connecting import forms_of
from webapp.papers.queries import dates
from webapp.ui.pages import for_readers


class FirstStepsForm(forms.Form):
    """A reader's interests. If valid, it has `profile_settings`."""

    categories = ProfileForm.base_fields["categories"]
    keywords = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 4}),
        max_length=20_000,
        required=False,
        label="Words and phrases",
        help_text="One per line: sparse attention, author:Jane Doe.",
    )
    liked = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 4}),
        max_length=2_000_000,
        required=False,
        label="Papers you like",
        help_text="arXiv ids, BibTeX, RIS or CSL-JSON. Five make a ranking, two a guess.",
    )

    profile_settings: ProfileSettings

    def clean_liked(self) -> str:
        """The references, if they can be read in time."""
        text: str = self.cleaned_data["liked"]
        try:
            references(text)
        except TooMuchError as error:
            raise forms.ValidationError(_("This cannot be imported: %s.") % error) from error
        return text

    def clean(self) -> dict[str, object]:
        """Check the resulting profile."""
        data = self.cleaned_data
        alone = Profile.Ranking.BOTH if data.get("keywords") else Profile.Ranking.LEARNED
        given = ProfileForm.initial_of(None) | data | {"name": "Mine", "ranking": alone}
        whole = ProfileForm(given)
        if whole.is_valid():
            self.profile_settings = whole.profile_settings
        for name, errors in whole.errors.items():
            self.add_error(name if name in self.fields else None, list(errors))
        if not data.get("keywords") and not data.get("liked"):
            self.add_error("keywords", _("Write a phrase, or name papers you like."))
        return data


@for_readers("GET", "HEAD", "POST")
def first_steps(request: HttpRequest, reader: User) -> HttpResponse:
    """Ask for the reader's interests, preview the profile and create it."""
    if Profile.objects.filter(owner=reader).count() >= MAX_PROFILES:
        return redirect("digests:profiles")
    initial = {"categories": " ".join(settings.ARXIV_CATEGORIES)}
    form = FirstStepsForm(request.POST or None, initial=initial, label_suffix="")
    valid = form.is_bound and form.is_valid()
    if valid and "preview" not in request.POST:
        return redirect("digests:profile", _make(request, reader, form).slug)
    named = named_in(form.cleaned_data["liked"]) if valid else None
    learned = train(signals(reader).with_named(named)) if named else None
    context = {
        "form": form,
        "previewed": valid,
        "named": named,
        "learned": learned,
        "sure": SURE,
        "changes": preview_profile(None, None, form.profile_settings.rules(learned))
        if valid
        else [],
        "connections": forms_of(reader, request) if reader.is_superuser else {},
    }
    status = 422 if form.errors else 200
    return render(request, "pages/first_steps.html", context, status=status)


def _make(request: HttpRequest, reader: User, form: FirstStepsForm) -> Profile:
    profile = Profile(owner=reader, slug=free_slug(f"{reader.username} reads"))
    form.profile_settings.name = (_("Papers for %(reader)s") % {"reader": reader})[:80]
    save_settings(profile, form.profile_settings)
    unknown = import_liked(reader, form.cleaned_data["liked"]).unknown
    if unknown:
        try:
            ask_for(reader, unknown)
        except LimitReachedError as error:
            messages.warning(request, str(error))
    model_for(reader.pk, profile.learn_from)
    build(dates(DAYS), [profile])
    return profile

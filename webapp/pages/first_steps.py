"""First steps: a profile from categories, phrases and liked papers, on one page."""

from dataclasses import replace
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.utils.translation import gettext as _

from webapp.core.limits import LimitReachedError
from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.digests.profiles.forms import ProfileForm
from webapp.digests.profiles.preview import DAYS, preview_profile
from webapp.digests.profiles.validation import ProfileSettings, free_slug, save_settings
from webapp.digests.profiles.views import MAX_PROFILES
from webapp.learning.numbered import paper_vector
from webapp.learning.preferences import SURE
from webapp.learning.tfidf import dot
from webapp.learning.training import LEAST, train
from webapp.library.feedback import model_for, signals
from webapp.library.importing import (
    Named,
    ask_for,
    ask_for_author,
    import_named,
    named_in,
    papers_by,
)
from webapp.library.references import TooMuchError, references
from webapp.operate.connecting import forms_of
from webapp.papers.models import Announcement, Paper
from webapp.papers.queries import dates
from webapp.ui.pages import for_readers
from webapp.ui.templatetags.ui import sanitised

OFFERED = 10  # papers to choose from
LOOKED_AT = 150  # of the last days, among which the most different are sought


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

    author = forms.CharField(
        max_length=100,
        required=False,
        label="Your name as an author",
        help_text="Your papers count as liked: those here now, others as arXiv sends them.",
    )
    chosen = forms.ModelMultipleChoiceField(
        Paper.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Which of these would you read?",
        help_text="Ten papers of the last days, as different as they are. Five make a ranking.",
    )

    profile_settings: ProfileSettings

    def __init__(self, *args: Any, saved: int, **named: Any) -> None:
        """`saved` papers of the reader count as liked, too."""
        super().__init__(*args, **named)
        self.saved = saved
        offered = self.fields["chosen"]
        assert isinstance(offered, forms.ModelMultipleChoiceField)
        recent = Announcement.objects.filter(listing__date__in=dates(DAYS)).values("paper")
        offered.queryset = Paper.objects.filter(pk__in=recent)
        offered.choices = [
            (paper.pk, format_html("<span>{}</span>", sanitised(paper.title_html)))
            for paper in different_papers()
        ]

    @property
    def named(self) -> Named:
        """All papers that the reader likes, however they said so."""
        data = self.cleaned_data
        named = named_in(data["liked"])
        mine = papers_by(data["author"]) if data["author"] else []
        papers = {paper.pk: paper for paper in [*named.papers, *data["chosen"], *mine]}
        return replace(named, papers=list(papers.values()))

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
        is_empty = not any(data.get(name) for name in ("keywords", "liked", "author", "chosen"))
        if is_empty and self.saved < LEAST:
            self.add_error("keywords", _("Write a phrase, or name papers you like."))
        return data


@for_readers("GET", "HEAD", "POST")
def first_steps(request: HttpRequest, reader: User) -> HttpResponse:
    """Ask for the reader's interests, preview the profile and create it."""
    if Profile.objects.filter(owner=reader).count() >= MAX_PROFILES:
        return redirect("digests:feeds")
    initial = {"categories": " ".join(settings.ARXIV_CATEGORIES)}
    liked = signals(reader)
    form = FirstStepsForm(request.POST or None, initial=initial, label_suffix="", saved=liked.count)
    valid = form.is_bound and form.is_valid()
    if valid and "preview" not in request.POST:
        return redirect("digests:profile", _make(request, reader, form).slug)
    named = form.named if valid else None
    learned = train(liked.liking(named.papers, named.texts)) if named else None
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


def different_papers() -> list[Paper]:
    """Papers of the last days in the site's categories, each as unlike the ones before as can be.

    The first is the latest; the same until a day comes.
    """
    listed = Announcement.objects.filter(
        listing__date__in=dates(DAYS), listing__category__in=settings.ARXIV_CATEGORIES, type="new"
    )
    recent = Paper.objects.filter(pk__in=listed.values("paper")).order_by("-announced_on", "pk")
    papers = list(recent[:LOOKED_AT])
    vectors = {paper.pk: paper_vector(paper.title, paper.abstract) for paper in papers}
    nearest = dict.fromkeys(vectors, 0.0)  # the cosine to the nearest one that is chosen
    chosen: list[Paper] = []
    while papers and len(chosen) < OFFERED:
        paper = min(papers, key=lambda paper: nearest[paper.pk])
        papers.remove(paper)
        chosen.append(paper)
        for other in papers:
            near = dot(vectors[paper.pk], vectors[other.pk])
            nearest[other.pk] = max(nearest[other.pk], near)
    return chosen


def _make(request: HttpRequest, reader: User, form: FirstStepsForm) -> Profile:
    profile = Profile(owner=reader, slug=free_slug(f"{reader.username} reads"))
    form.profile_settings.name = (_("Papers for %(reader)s") % {"reader": reader})[:80]
    save_settings(profile, form.profile_settings)
    unknown, author = import_named(reader, form.named).unknown, form.cleaned_data["author"]
    if unknown or author:
        try:
            if unknown:
                ask_for(reader, unknown)
            if author:
                ask_for_author(reader, author)
        except LimitReachedError as error:
            messages.warning(request, str(error))
    model_for(reader.pk, profile.learn_from)
    build(dates(DAYS), [profile])
    return profile

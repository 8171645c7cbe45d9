"""First steps: a feed from whatever a reader pastes, and from papers to choose among."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.utils.translation import gettext as _

from webapp.core.input import number_in
from webapp.core.limits import LimitReachedError
from webapp.core.sandbox import UnreadableError
from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.digests.profiles.forms import ProfileForm
from webapp.digests.profiles.preview import DAYS, preview_profile
from webapp.digests.profiles.validation import ProfileSettings, free_slug, save_settings
from webapp.digests.profiles.views import MAX_PROFILES
from webapp.digests.scoring.terms import AUTHOR
from webapp.learning.numbered import paper_vector
from webapp.learning.preferences import SURE
from webapp.learning.tfidf import dot
from webapp.learning.training import LEAST, train
from webapp.library.feedback import model_for, signals
from webapp.library.importing import Named, ask_for, ask_for_author, import_named
from webapp.library.pasted import Homonym, Understood, understand
from webapp.operate.connecting import connection_forms
from webapp.papers.models import Announcement, Paper
from webapp.papers.queries import dates
from webapp.ui.pages import for_readers
from webapp.ui.templatetags.ui import sanitised

OFFERED = 10  # papers to choose from at once
MISSING = 3  # authors that arXiv is asked for
SHEETS = 5  # of offered papers
LOOKED_AT = 150  # of the last days, among which the most different are sought


class PapersField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    """Papers by their keys. A key that no database holds is no choice, as one that is not there."""

    def clean(self, value: Any) -> Any:
        """Return the papers. Raises ValidationError."""
        for key in value or ():
            if not number_in(str(key)):
                message = self.error_messages["invalid_choice"] % {"value": key}
                raise forms.ValidationError(message, code="invalid_choice")
        return super().clean(value)


class FirstStepsForm(forms.Form):
    """A reader's interests. If valid, it has `understood` and `profile_settings`."""

    interests = forms.CharField(
        widget=forms.Textarea(
            attrs={"rows": 6, "placeholder": "LLM agents, reward models\n2603.12201\nAda Cole"}
        ),
        max_length=2_000_000,
        required=False,
        label="Topics, papers or authors",
        help_text="Words, a sentence, titles, arXiv ids or links, names, categories, BibTeX or "
        "RIS. “Not” before a topic leaves it out.",
    )
    chosen = PapersField(
        Paper.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Which of these would you read?",
        help_text="Pick five for good recommendations.",
    )
    categories = ProfileForm.base_fields["categories"]

    profile_settings: ProfileSettings
    understood: Understood

    def __init__(self, *args: Any, saved: int, sheet: int = 0, **named: Any) -> None:
        """`saved` papers of the reader count as liked, too; `sheet`: which papers are offered."""
        super().__init__(*args, **named)
        self.saved = saved
        self.understood = Understood()
        offered = self.fields["chosen"]
        assert isinstance(offered, PapersField)
        recent = Announcement.objects.filter(listing__date__in=dates(DAYS)).values("paper")
        offered.queryset = Paper.objects.filter(pk__in=recent)
        ticked = set(self.data.getlist("chosen")) if self.is_bound else set()  # type: ignore[attr-defined]
        before = Paper.objects.filter(pk__in=[number_in(key) for key in ticked])
        shown = different_papers(sheet)
        offered.choices = [
            (paper.pk, format_html("<span>{}</span>", sanitised(paper.title_html)))
            for paper in [*(paper for paper in before if paper not in shown), *shown]
        ]

    @property
    def ignored(self) -> set[str]:
        """Names of authors that the reader unticked."""
        shown = set(self.data.getlist("shown_author"))  # type: ignore[attr-defined]
        return shown - set(self.data.getlist("author"))  # type: ignore[attr-defined]

    @property
    def authors(self) -> list[Homonym]:
        """The authors to follow."""
        return [author for author in self.understood.authors if author.name not in self.ignored]

    @property
    def named(self) -> Named:
        """All papers that the reader likes, however they said so."""
        read = self.understood
        papers = {paper.pk: paper for paper in [*read.papers, *self.cleaned_data["chosen"]]}
        return Named(list(papers.values()), read.texts, read.unknown)

    def clean_interests(self) -> str:
        """Understand the text, if it can be read in time."""
        text: str = self.cleaned_data["interests"]
        try:
            self.understood = understand(text)
        except UnreadableError as error:
            raise forms.ValidationError(_("This cannot be imported: %s.") % error) from error
        return text

    def clean(self) -> dict[str, object]:
        """Check that a feed can be made of it."""
        data = self.cleaned_data
        read = self.understood
        keywords = [*read.keywords, *(f"{AUTHOR}{author.name}" for author in self.authors)]
        given = ProfileForm.initial_values(None) | {
            "name": "Mine",
            "categories": " ".join([data.get("categories", ""), *read.categories]),
            "keywords": "\n".join(keywords),
            "exclude": "\n".join(read.excluded),
            "learns": True,
        }
        whole = ProfileForm(given)
        if whole.is_valid():
            self.profile_settings = whole.profile_settings
        for name, errors in whole.errors.items():
            field = {"keywords": "interests"}.get(name, name)
            self.add_error(field if field in self.fields else None, list(errors))
        has_some = bool(keywords or read.papers or read.unknown or read.texts or data.get("chosen"))
        if not has_some and self.saved < LEAST and "interests" not in self.errors:
            nothing = _("Write what you follow, or pick papers below.")
            if read.categories:
                nothing = _("A category alone ranks no paper. Add a topic, or pick papers below.")
            elif read.parts:
                nothing = _("Nothing in this could be used. Write a topic, or pick papers below.")
            self.add_error("interests", nothing)
        return data


@for_readers("GET", "HEAD", "POST")
def first_steps(request: HttpRequest, reader: User) -> HttpResponse:
    """Ask for the reader's interests, preview the feed and create it."""
    if Profile.objects.filter(owner=reader).count() >= MAX_PROFILES:
        return redirect("digests:feeds")
    initial = {"categories": " ".join(settings.ARXIV_CATEGORIES)}
    liked = signals(reader)
    number = request.POST.get("sheet", "")
    sheet = int(number) % SHEETS if number.isdecimal() and len(number) < 3 else 0
    form = FirstStepsForm(
        request.POST or None, initial=initial, label_suffix="", saved=liked.count, sheet=sheet
    )
    valid = form.is_bound and form.is_valid()
    is_preview = "preview" in request.POST or "sheet" in request.POST
    if valid and not is_preview:
        return redirect("digests:profile", _make(request, reader, form).slug)
    learned = None
    if valid:
        learned = train(liked.liking(form.named.papers, form.named.texts))
    context = {
        "form": form,
        "previewed": valid,
        "understood": form.understood,
        "ignored": form.ignored if form.is_bound else set(),
        "learned": learned,
        "sure": SURE,
        "next_sheet": (sheet + 1) % SHEETS,
        "changes": preview_profile(None, None, form.profile_settings.rules(learned))
        if valid
        else [],
        "connections": connection_forms(reader, request) if reader.is_superuser else {},
    }
    status = 422 if form.errors and "sheet" not in request.POST else 200
    return render(request, "pages/first_steps.html", context, status=status)


def different_papers(sheet: int = 0) -> list[Paper]:
    """Return papers of the last days, each as unlike the ones before as can be.

    The first is the latest; the same until a day comes. Further sheets have others.
    """
    listed = Announcement.objects.filter(
        listing__date__in=dates(DAYS), listing__category__in=settings.ARXIV_CATEGORIES, type="new"
    )
    recent = Paper.objects.filter(pk__in=listed.values("paper")).order_by("-announced_on", "pk")
    papers = list(recent[:LOOKED_AT])
    vectors = {paper.pk: paper_vector(paper.title, paper.abstract) for paper in papers}
    nearest = dict.fromkeys(vectors, 0.0)  # the cosine to the nearest paper that is chosen
    chosen: list[Paper] = []
    while papers and len(chosen) < (sheet + 1) * OFFERED:
        paper = min(papers, key=lambda paper: nearest[paper.pk])
        papers.remove(paper)
        chosen.append(paper)
        for other in papers:
            near = dot(vectors[paper.pk], vectors[other.pk])
            nearest[other.pk] = max(nearest[other.pk], near)
    return chosen[sheet * OFFERED :]


def _make(request: HttpRequest, reader: User, form: FirstStepsForm) -> Profile:
    """Create the feed, save the papers and ask arXiv for those that are not here."""
    profile = Profile(owner=reader, slug=free_slug(f"{reader.username} reads"))
    form.profile_settings.name = (_("Papers for %(reader)s") % {"reader": reader})[:80]
    save_settings(profile, form.profile_settings)
    unknown = import_named(reader, form.named).unknown
    try:
        if unknown:
            ask_for(reader, unknown)
        for name in form.understood.missing[:MISSING]:
            ask_for_author(reader, name)
    except LimitReachedError as error:
        messages.warning(request, str(error))
    model_for(reader.pk, profile.learn_from)
    build(dates(DAYS), [profile])
    return profile

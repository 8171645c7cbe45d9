"""The settings of a profile, checked field by field, and the rules that scoring makes of them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import chain, count
from secrets import token_hex
from typing import Annotated, Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.text import slugify
from django.utils.translation import gettext as _
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from webapp.digests.models import LearnedModel, Profile
from webapp.digests.profiles.defaults import EXCLUDE, MIN_SCORE, default_keywords, default_model
from webapp.digests.scoring.rules import Keyword, Rules, author_of
from webapp.digests.scoring.terms import Kind, PatternError, normalise, term
from webapp.learning.linear import Linear
from webapp.learning.preferences import Learned, packed_examples
from webapp.papers.identifiers import known_categories, spelt_category
from webapp.papers.models import AnnounceType
from webapp.summaries.models import Summary

MAX_KEYWORDS = 100
MAX_REGEXES = 10
MAX_EXCLUDES = 50
MAX_CATEGORIES = 40
MAX_SIZE = 200
DEFAULT_TYPES = (AnnounceType.NEW, AnnounceType.CROSS)
Category = Annotated[str, AfterValidator(spelt_category)]


class ProfileError(ValueError):
    """Invalid settings; `errors` has the messages by field."""

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        self.errors = dict(errors)
        parts = (f"{name}: {', '.join(messages)}" for name, messages in errors.items())
        super().__init__("; ".join(parts))


def _clean(text: str) -> str:
    text = normalise(text)
    if not text.isprintable():
        raise ValueError("contains a line break or a control character")
    return text


class ProfileSettings(BaseModel, extra="forbid", use_enum_values=True):
    """Everything that can be set on a profile. `checked_settings` reports errors by field."""

    name: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=80),
        AfterValidator(_clean),
    ]
    # Before the keywords, whose checks depend on them.
    ranking: Profile.Ranking = Profile.Ranking.RULES
    matching: Profile.Matching = Profile.Matching.TOKEN
    categories: Annotated[list[Category], Field(min_length=1, max_length=MAX_CATEGORIES)]
    keywords: Annotated[list[Keyword], Field(max_length=MAX_KEYWORDS)]
    exclude: Annotated[list[str], Field(max_length=MAX_EXCLUDES)] = []
    announce_types: Annotated[list[AnnounceType], Field(min_length=1)] = list(DEFAULT_TYPES)
    min_score: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] = 0.0
    learn_from: Annotated[str, Field(pattern=r"^(list:[0-9]{1,18})?$")] = ""
    size: Annotated[int, Field(ge=1, le=MAX_SIZE)] = 30
    language: Summary.Language = Summary.Language.ENGLISH

    @field_validator("keywords", "exclude")
    @classmethod
    def _valid_terms(cls, value: list[Any], info: ValidationInfo) -> list[Any]:
        texts = [keyword if isinstance(keyword, str) else keyword.keyword for keyword in value]
        if messages := _term_errors(texts, info.data.get("matching") == Profile.Matching.SUBSTRING):
            raise ValueError(" ".join(messages))
        if info.field_name == "keywords" and not value and info.data.get("ranking") != "learned":
            raise ValueError(_("Write at least one keyword, or choose “Learn from what I save”."))
        return value

    def rules(self, learned: Learned | None = None) -> Rules:
        """The rules for scoring, with what was `learned` if the settings ask for it.

        Until something is learned, a learned ranking uses its keywords.
        """
        if self.ranking == Profile.Ranking.RULES:
            learned = None
        needs_keywords = learned is None or self.ranking != Profile.Ranking.LEARNED
        return Rules(
            keywords=tuple(self.keywords) if needs_keywords else (),
            exclude=tuple(self.exclude),
            categories=tuple(self.categories),
            announce_types=tuple(self.announce_types),
            substring=self.matching == Profile.Matching.SUBSTRING,
            by_rarity=self.matching == Profile.Matching.RARITY,
            by_place=self.matching == Profile.Matching.RARITY,
            min_score=self.min_score,
            size=self.size,
            learned=learned,
        )


def checked_settings(data: Mapping[str, Any]) -> ProfileSettings:
    """`data` as checked settings; duplicates in lists count once. Raises ProfileError."""
    try:
        checked = ProfileSettings.model_validate(data)
    except ValidationError as error:
        raise ProfileError(errors_by_field(error, "profile")) from None
    # Duplicates count once, in the order given.
    checked.categories = list(dict.fromkeys(checked.categories))
    checked.announce_types = [kind for kind in AnnounceType if kind in checked.announce_types]
    return checked


def _term_errors(texts: list[str], substring: bool) -> list[str]:
    """Errors of keywords: invalid ones, duplicates, too many regular expressions."""
    messages = []
    seen: dict[tuple[str, str], str] = {}  # by meaning
    regexes = 0
    for text in texts:
        shown = f"“{text[:60]}”" if text.strip() else _("A keyword")
        author = author_of(text)
        if author:
            meant = ("author", author.letters)
        else:
            try:
                parsed = term(text, substring=substring)
            except PatternError as error:
                messages.append(f"{shown} {_(str(error))}.")
                continue
            meant = (parsed.kind, parsed.source)
            regexes += parsed.kind is Kind.REGEX
        twin = seen.setdefault(meant, text)
        if twin is not text:
            same = _("is listed twice") if twin == text else _("means the same as “%s”") % twin[:60]
            messages.append(f"{shown} {same}.")
    if regexes > MAX_REGEXES:
        most = _("%(count)d regular expressions; at most %(most)d are allowed.")
        messages.append(most % {"count": regexes, "most": MAX_REGEXES})
    return messages


def errors_by_field(error: ValidationError, whole: str) -> dict[str, list[str]]:
    """pydantic's messages by field, with the place in a list; those of no field under `whole`."""
    errors: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        name, *place = problem["loc"] or (whole,)
        where = ".".join(str(part + 1 if isinstance(part, int) else part) for part in place)
        message = problem["msg"].removeprefix("Value error, ")
        errors.setdefault(str(name), []).append(f"{where}: {message}" if where else message)
    return errors


def read_settings(profile: Profile) -> ProfileSettings:
    """The settings of a stored profile. Raises ProfileError if it was stored unchecked.

    Words stored as categories before they were refused are left out.
    """
    stored = {name: getattr(profile, name) for name in ProfileSettings.model_fields}
    return checked_settings(stored | {"categories": known_categories(profile.categories)})


def load_rules(profile: Profile) -> Rules:
    """The rules of a stored profile, with what was learned from its owner. Raises ProfileError."""
    return read_settings(profile).rules(stored_model(profile.owner_id, profile.learn_from))


def load_learned(model: LearnedModel) -> Learned:
    """A stored model as scoring uses it."""
    return Learned(
        Linear(model.intercept, model.weights),
        tuple(model.reference),
        model.margin,
        model.examples or packed_examples(()),
        model.liked,
        model.fingerprint,
    )


def stored_model(owner: int | None, source: str) -> Learned | None:
    """Return what was learned from a reader, or from one of their lists.

    A feed without an owner has the model of the site's own list.
    """
    if owner is None:
        return default_model()
    model = LearnedModel.objects.filter(reader=owner, source=source).first()
    return load_learned(model) if model else None


def stored_models(profiles: Iterable[Profile]) -> dict[tuple[int, str], Learned]:
    """Return what was learned for profiles, by reader (0 for none) and source; one query."""
    learning = [profile for profile in profiles if profile.ranking != Profile.Ranking.RULES]
    sources = {(profile.owner_id, profile.learn_from) for profile in learning if profile.owner_id}
    ownerless = {
        (0, profile.learn_from): default_model() for profile in learning if not profile.owner_id
    }
    models = (
        LearnedModel.objects.filter(reader__in={owner for owner, _ in sources}) if sources else ()
    )
    keyed = (((model.reader_id, model.source), model) for model in models)
    return ownerless | {key: load_learned(model) for key, model in keyed if key in sources}


def save_settings(profile: Profile, new: ProfileSettings) -> None:
    """Save a profile with these settings; a new one gets a slug by its name."""
    for name, value in new.model_dump(mode="json").items():
        setattr(profile, name, value)
    if profile.slug:
        profile.save()
        return
    profile.slug = free_slug(new.name)
    try:
        with transaction.atomic():
            profile.save()
    except IntegrityError:  # another window has taken it meanwhile
        profile.slug += f"-{token_hex(3)}"
        profile.save()


def free_slug(name: str) -> str:
    """A slug for a profile of this name that no other has."""
    stem = slugify(name)[:56].strip("-") or "feed"
    used = Profile.objects.filter(slug__startswith=stem).values_list("slug", flat=True)
    taken = {"new", "import", "opml", *used}
    numbered = (f"{stem}-{number}" for number in count(2))
    return next(slug for slug in chain([stem], numbered) if slug not in taken)


def site_profile() -> Profile:
    """The site's own profile, created with default keywords on first use."""
    return Profile.objects.get_or_create(
        is_site=True,
        defaults={
            "slug": "site",
            "name": "Assay",
            "categories": list(settings.ARXIV_CATEGORIES),
            "keywords": [asdict(keyword) for keyword in default_keywords()],
            "exclude": list(EXCLUDE),
            "min_score": MIN_SCORE,
            "matching": Profile.Matching.RARITY,
            "ranking": Profile.Ranking.BOTH,
            "announce_types": [kind.value for kind in DEFAULT_TYPES],
        },
    )[0]

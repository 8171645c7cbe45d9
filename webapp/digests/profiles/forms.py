"""The form of a profile, with lists as lines of text."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from webapp.core.hooks import Hook
from webapp.digests.models import Profile
from webapp.digests.profiles.keyword_frequencies import count_frequencies
from webapp.digests.profiles.validation import (
    DEFAULT_TYPES,
    MAX_SIZE,
    ProfileError,
    ProfileSettings,
    checked_settings,
)
from webapp.digests.scoring.rules import Keyword
from webapp.papers.identifiers import categories_in
from webapp.papers.models import AnnounceType
from webapp.papers.queries import categories
from webapp.papers.search import filters
from webapp.papers.search.query import (
    MAX_QUERY,
    TERM,
    Query,
    QueryError,
    QueryTerm,
    category_word,
    parse,
)
from webapp.summaries.models import Summary
from webapp.ui.language import current_language


@Hook
def list_sources(_owner: int | None, /) -> Sequence[tuple[str, str]]:
    """Return the lists of a reader: (source as in `Profile.learn_from`, label)."""
    return ()


MAX_TEXT = 20_000  # characters of a list
# Fields whose stored values the form shows unchanged.
AS_STORED = (
    *("name", "announce_types", "matching", "learn_from", "min_score", "size", "language"),
    "is_published",
)
# Fields that most readers never need: the page folds them.
ADVANCED = (
    *("exclude", "learn_from", "announce_types", "min_score", "size", "language"),
    "is_published",
)
_NUMBER = r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+|nan|inf(?:inity)?)(?:e[-+]?\d+)?"
_WEIGHTED = re.compile(
    rf"(?P<keyword>.*?)\s*;\s*(?P<weight>{_NUMBER})\s*(?:;\s*(?P<bonus>{_NUMBER})\s*)?", re.I
)


class ProfileForm(forms.Form):
    """The settings of a feed. If valid, it has `profile_settings`."""

    name = forms.CharField(max_length=80)
    keywords = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 8}),
        max_length=MAX_TEXT,
        label="Words, phrases and authors",
        help_text="One per line: sparse attention, quant*, author:Jane Doe. | is for synonyms.",
    )
    categories = forms.CharField(
        max_length=2000, help_text="arXiv categories, for example cs.CL cs.LG hep-th."
    )
    learns = forms.BooleanField(
        required=False,
        label="Learn from what I save",
        help_text="Adds papers close to those you saved, and ranks by them. One saved paper is "
        "enough to start; five give good results.",
    )
    exclude = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}),
        max_length=MAX_TEXT,
        required=False,
        help_text="One per line, like keywords. Papers that contain one are left out.",
    )
    learn_from = forms.ChoiceField(
        required=False,
        label="Learn only from",
        help_text="Give each interest a list and a feed of its own.",
    )
    announce_types = forms.MultipleChoiceField(
        choices=AnnounceType.choices,
        widget=forms.CheckboxSelectMultiple,
        label="Announced as",
        help_text="With replacements, a paper can appear again on a later day.",
    )
    matching = forms.ChoiceField(choices=Profile.Matching.choices, widget=forms.HiddenInput)
    min_score = forms.FloatField(
        min_value=0,
        max_value=10_000,
        label="Minimum score",
        help_text="Papers with less stand under “Lower matches”.",
    )
    size = forms.IntegerField(min_value=1, max_value=MAX_SIZE, label="Papers per day, at most")
    language = forms.ChoiceField(choices=Summary.Language.choices, label="Language of summaries")
    is_published = forms.BooleanField(
        required=False,
        label="Publish this feed",
        help_text="Anyone can then see its name, keywords and papers. If it learns, they also see "
        "titles of papers that you saved.",
    )

    profile_settings: ProfileSettings

    def __init__(self, *args: Any, owner: int | None = None, **named: Any) -> None:
        """`owner`: the reader whose lists the feed may learn from."""
        super().__init__(*args, **named)
        sources = [("", _("everything I save")), *list_sources(owner)]
        self.fields["learn_from"].choices = sources  # type: ignore[attr-defined]

    @property
    def advanced(self) -> list[forms.BoundField]:
        """The folded fields."""
        return [self[name] for name in ADVANCED]

    @property
    def is_unfolded(self) -> bool:
        """True if a folded field has an error."""
        return any(name in self.errors for name in ADVANCED)

    @staticmethod
    def initial_values(profile: Profile | None) -> dict[str, Any]:
        """The initial values for a profile, or for a new one."""
        shown = profile or Profile(
            announce_types=[kind.value for kind in DEFAULT_TYPES],
            matching=Profile.Matching.RARITY,
            ranking=Profile.Ranking.BOTH,
            language=current_language(),
        )
        return {
            **{name: getattr(shown, name) for name in AS_STORED},
            "learns": shown.ranking != Profile.Ranking.RULES,
            "categories": " ".join(shown.categories),
            "keywords": "\n".join(_keyword_line(keyword) for keyword in shown.keywords),
            "exclude": "\n".join(shown.exclude),
        }

    def clean(self) -> dict[str, Any]:
        """Check the settings; errors of pydantic and RE2 are reported at their fields."""
        data = dict(self.cleaned_data)
        data.pop("is_published", None)
        both = Profile.Ranking.BOTH if data.get("keywords") else Profile.Ranking.LEARNED
        data["ranking"] = both if data.pop("learns", False) else Profile.Ranking.RULES
        if "categories" in data:
            data["categories"] = categories_in(data["categories"])
        if "keywords" in data:
            data["keywords"] = [_keyword(line) for line in _lines(data["keywords"])]
        if "exclude" in data:
            data["exclude"] = _lines(data["exclude"])
        try:
            self.profile_settings = checked_settings(data)
            if self.profile_settings.matching == Profile.Matching.RARITY:
                keywords = self.profile_settings.keywords
                frequencies = count_frequencies([keyword.keyword for keyword in keywords])
                self.profile_settings.keywords = [
                    replace(keyword, frequency=frequencies.get(keyword.keyword))
                    for keyword in keywords
                ]
        except ProfileError as error:
            # Fields that failed before are missing from `data`, and have their errors already.
            for name, messages in error.errors.items():
                if name not in self.errors:
                    self.add_error(name if name in self.fields else None, list(messages))
        return self.cleaned_data


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _keyword(line: str) -> dict[str, Any]:
    """Parse a line of the form: `sparse attention ; 2 ; 1`."""
    match = _WEIGHTED.fullmatch(line)
    if match is None:
        return {"keyword": line}
    numbers = {"weight": match["weight"], "title_bonus": match["bonus"]}
    return {"keyword": match["keyword"]} | {
        name: float(value.replace(",", ".")) for name, value in numbers.items() if value
    }


def _keyword_line(stored: dict[str, Any]) -> str:
    keyword = Keyword(**stored)
    if keyword.title_bonus != 0.5:
        return f"{keyword.keyword} ; {keyword.weight:g} ; {keyword.title_bonus:g}"
    return keyword.keyword if keyword.weight == 1.0 else f"{keyword.keyword} ; {keyword.weight:g}"


def initial_of_search(q: str, category: str) -> dict[str, Any]:
    """The initial values of a new profile that finds the same papers as a search.

    Each term is a keyword of one point without a title bonus, and the minimum score is their
    number, so that a paper must contain them all.
    """
    terms = _parsed(q).terms
    sought = [term for term in terms if not term.exclude and term.column != "categories"]
    names = {category_word(name): name for name in categories()}
    chosen = [
        names[term.words[0]]
        for term in terms
        if term.column == "categories" and not term.exclude and term.words[0] in names
    ]
    return {
        "name": " ".join(q.split())[:80],
        "categories": " ".join([category] if category else chosen or names.values()),
        "keywords": "\n".join(f"{_term_keyword(term)} ; 1 ; 0" for term in sought),
        "exclude": "\n".join(
            _term_keyword(term) for term in terms if term.exclude and not _left_out(term)
        ),
        "matching": Profile.Matching.TOKEN,
        "learns": False,
        "min_score": len(sought),
    }


def _parsed(q: str) -> Query:
    """The query, without anything where a search refuses it."""
    try:
        return parse(q, tuple(filters))
    except QueryError:
        return Query()


def lost_of_search(q: str) -> list[str]:
    """The parts of a search that a profile cannot express: it has no fields but authors."""
    parts = {match[0]: _parsed(match[0]) for match in TERM.finditer(q[:MAX_QUERY])}
    return [
        part
        for part, meant in parts.items()
        if meant.named
        or meant.since
        or meant.until
        or any(term.column in {"title", "abstract"} or _left_out(term) for term in meant.terms)
    ]


def _left_out(term: QueryTerm) -> bool:
    return term.exclude and term.column == "categories"


def _term_keyword(term: QueryTerm) -> str:
    """A term as a keyword of a profile: `author:jane doe`, `quant*`, `sparse attention`."""
    if term.others:
        return " | ".join(map(_term_keyword, (replace(term, others=()), *term.others)))
    text = " ".join(term.words)
    if term.column == "authors":
        return f"author:{text}"
    return f"{text}*" if term.prefix else text

"""The filters and order of a day's papers, kept in the query string."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from django.http import QueryDict

from webapp.digests.models import DigestEntry
from webapp.digests.scoring.terms import MAX_REGEX, keyword_name
from webapp.learning.preferences import LEARNED
from webapp.papers.models import AnnounceType

ORDERS = {"score": "Score", "new": "Newest first", "title": "Title"}
VIEWS = {"list": "List", "abstracts": "Abstracts"}
# By field: the heading of the facet, and an entry's values.
FACETS: dict[str, tuple[str, Callable[[DigestEntry], Iterable[str]]]] = {
    "category": ("Category", lambda entry: entry.paper.categories),
    "type": ("Announced as", lambda entry: {entry.announce_type}),
    "keyword": ("Keyword", lambda entry: entry.matched_keywords),
}
NOT_OFFERED = ("/", LEARNED)  # begin a regular expression, and closeness, in place of a keyword
MAX_OPTIONS = 12  # of one facet
MAX_VALUE = MAX_REGEX + 2  # characters, of the longest keyword with its slashes


@dataclass(frozen=True)
class Filters:
    """A reader's choice of filters and order; an empty field filters nothing."""

    category: str = ""
    type: str = ""
    keyword: str = ""
    order: str = "score"
    view: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filters:
        """Parse the filters in a query string; unknown values of `order` and `view` are ignored."""
        given = {field.name: query.get(field.name, "")[:MAX_VALUE] for field in fields(cls)}
        if given["order"] not in ORDERS:
            given["order"] = "score"
        if given["view"] not in VIEWS:  # "": as this browser remembers, else the list
            given["view"] = ""
        return cls(**given)

    @property
    def narrowed(self) -> bool:
        """True if a filter is set, so papers may be left out."""
        return any(getattr(self, name) for name in FACETS)

    def apply(self, entries: Iterable[DigestEntry]) -> list[DigestEntry]:
        """Return the entries that pass the filters, in the chosen order."""
        passing = [
            entry
            for entry in entries
            if all(getattr(self, name) in ("", *has(entry)) for name, (_, has) in FACETS.items())
        ]
        if self.order == "title":
            passing.sort(key=lambda entry: entry.paper.title.casefold())
        elif self.order == "new":
            passing.sort(key=lambda entry: entry.paper.arxiv_id, reverse=True)
        return passing


# A value of a facet: its label, its number of papers, the query that toggles it, if it is chosen.
Option = tuple[str, int, QueryDict, bool]


def facets(
    query: QueryDict, filters: Filters, entries: Sequence[DigestEntry]
) -> list[tuple[str, list[Option]]]:
    """The facets of a day, each with its heading and options, the most frequent first.

    Papers are counted over the whole day. `query` is the current query string.
    """
    made = []
    for field, (label, has) in FACETS.items():
        values = (value for entry in entries for value in has(entry))
        counts = Counter(value for value in values if not value.startswith(NOT_OFFERED))
        chosen = getattr(filters, field)
        if chosen and chosen not in counts:
            counts[chosen] = 0
        if len(counts) < 2 and not chosen:
            continue
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0].casefold()))
        ranked = ranked[:MAX_OPTIONS] + [item for item in ranked[MAX_OPTIONS:] if item[0] == chosen]
        options = []
        for value, count in ranked:
            changed = query.copy()
            changed[field] = "" if value == chosen else value
            options.append((_label(field, value), count, changed, value == chosen))
        made.append((label, options))
    return made


def _label(field: str, value: str) -> str:
    if field == "type" and value in AnnounceType.values:
        return str(AnnounceType(value).label)
    return keyword_name(value) if field == "keyword" else value

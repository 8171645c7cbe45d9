"""What a reader narrows a day down to, kept in the query string."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from django.http import QueryDict

from webapp.digests.models import DigestEntry
from webapp.digests.scoring.terms import keyword_name
from webapp.papers.models import AnnounceType

ORDERS = {"score": "Score", "new": "Newest first", "title": "Title"}
VIEWS = {"list": "List", "abstracts": "Abstracts"}
MAX_OPTIONS = 12  # of one facet


@dataclass(frozen=True)
class Filters:
    """One reader's choice; an empty field lets everything through."""

    category: str = ""
    type: str = ""
    keyword: str = ""
    order: str = "score"
    view: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filters:
        """The choice a query string makes; what it does not know, it leaves."""
        given = {field.name: query.get(field.name, "")[:80] for field in fields(cls)}
        if given["order"] not in ORDERS:
            given["order"] = "score"
        if given["view"] not in VIEWS:  # none: what this browser remembers, else the list
            given["view"] = ""
        return cls(**given)

    @property
    def narrowed(self) -> bool:
        """Whether some papers may be left out."""
        return bool(self.category or self.type or self.keyword)

    def apply(self, entries: Iterable[DigestEntry]) -> list[DigestEntry]:
        """The entries this choice lets through, in its order."""
        kept = [
            entry
            for entry in entries
            if self.category in ("", *entry.paper.categories)
            and self.type in ("", entry.announce_type)
            and self.keyword in ("", *(match["keyword"] for match in entry.matches))
        ]
        if self.order == "title":
            kept.sort(key=lambda entry: entry.paper.title.casefold())
        elif self.order == "new":
            kept.sort(key=lambda entry: entry.paper.arxiv_id, reverse=True)
        return kept


@dataclass(frozen=True)
class Option:
    """One way to narrow: what it is called, how many papers it leaves, what asks for it."""

    label: str
    count: int
    query: QueryDict
    chosen: bool


@dataclass(frozen=True)
class Facet:
    """A heading with its options, the most frequent first."""

    label: str
    options: Sequence[Option]


def facets(query: QueryDict, filters: Filters, entries: Sequence[DigestEntry]) -> list[Facet]:
    """Every way this day can be narrowed from where a query is, counted over the whole day."""
    ways: list[tuple[str, str, Callable[[DigestEntry], Iterable[str]]]] = [
        ("category", "Category", lambda entry: entry.paper.categories),
        ("type", "Announced as", lambda entry: {entry.announce_type}),
        ("keyword", "Keyword", lambda entry: {match["keyword"] for match in entry.matches}),
    ]
    made = []
    for field, label, values in ways:
        counts = Counter(value for entry in entries for value in values(entry))
        chosen = getattr(filters, field)
        if chosen and chosen not in counts:
            counts[chosen] = 0
        if len(counts) < 2 and not chosen:
            continue
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0].casefold()))
        ranked = ranked[:MAX_OPTIONS] + [item for item in ranked[MAX_OPTIONS:] if item[0] == chosen]
        made.append(
            Facet(
                label,
                [
                    Option(
                        _label(field, value),
                        count,
                        _with(query, field, "" if value == chosen else value),
                        value == chosen,
                    )
                    for value, count in ranked
                ],
            )
        )
    return made


def _with(query: QueryDict, field: str, value: str) -> QueryDict:
    changed = query.copy()
    changed[field] = value
    return changed


def _label(field: str, value: str) -> str:
    if field == "type" and value in AnnounceType.values:
        return str(AnnounceType(value).label)
    return keyword_name(value) if field == "keyword" else value

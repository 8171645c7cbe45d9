"""What a batch is made of, whoever sent it; and the limits that make an entry believable."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime

from methods.protocol import clean
from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import AnnounceType

MAX_TITLE = 2_000  # characters
MAX_ABSTRACT = 20_000
MAX_AUTHORS = 10_000
MAX_CATEGORIES = 100
_CATEGORY = re.compile(r"[a-z]+(?:-[a-z]+)?(?:\.[A-Za-z-]{1,20})?", re.ASCII)


class BadEntryError(Exception):
    """An entry that cannot become a paper; the message says why."""


@dataclass(frozen=True)
class Author:
    """One author as arXiv names them, and as `Paper.authors` keeps them."""

    name: str
    affiliation: str = ""


@dataclass(frozen=True)
class Entry:
    """One announcement: a version of a paper, and how it was announced."""

    arxiv_id: str
    version: int
    type: AnnounceType
    title: str
    abstract: str
    authors: tuple[Author, ...] = ()
    categories: tuple[str, ...] = ()  # the primary one first
    license: str = ""
    doi: str = ""
    journal_ref: str = ""
    comment: str = ""
    submitted_at: datetime | None = None  # version 1; only the API tells
    updated_at: datetime | None = None  # this version; only the API tells
    # Where that is another version than these words': the API gives a paper's latest words only.
    announced_version: int | None = None

    def __post_init__(self) -> None:
        for name, most in (("title", MAX_TITLE), ("abstract", MAX_ABSTRACT)):
            length = len(getattr(self, name))
            if not length:
                raise BadEntryError(f"it has no {name}")
            if length > most:
                raise BadEntryError(f"its {name} has {length} characters")
        if len(self.authors) > MAX_AUTHORS:
            raise BadEntryError(f"it has {len(self.authors)} authors")

    @property
    def key(self) -> tuple[str, int]:
        """What makes two announcements the same words."""
        return self.arxiv_id, self.version


@dataclass(frozen=True)
class Problem:
    """An entry that was refused or mended, as `Listing.problems` keeps it."""

    item: str
    reason: str

    @property
    def paper(self) -> tuple[str, int | None] | None:
        """The identifier and version of the paper that the entry names; None where none."""
        with suppress(ValueError):
            return parse_identifier(self.item)
        return None


@dataclass(frozen=True)
class Batch:
    """What one source announced in one category on one day, each paper once."""

    category: str
    date: date
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...] = ()
    note: str = ""  # what a reader of the audit should know of the batch as a whole
    etag: str = field(default="", compare=False)
    last_modified: str = field(default="", compare=False)


def one_a_paper(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Of several announcements of a paper the one that counts most, in the order they came."""
    best: dict[str, Entry] = {}
    for entry in entries:
        known = best.get(entry.arxiv_id)
        if known is None or _weight(entry) < _weight(known):
            best[entry.arxiv_id] = entry
    return tuple(best.values())


def _weight(entry: Entry) -> tuple[int, int]:
    return entry.type.precedence, -entry.version


def paragraph(text: str) -> str:
    """The text cleaned, its lines kept and their ends trimmed."""
    return "\n".join(line.rstrip() for line in clean(text).split("\n")).strip()


def category_names(terms: Sequence[str]) -> tuple[str, ...]:
    """The terms that can be arXiv categories, each once, in order.

    MSC and ACM classes stand beside them in the API's answers (`68T50`, `I.2.7`).
    """
    names = dict.fromkeys(term for term in map(str.strip, terms) if _CATEGORY.fullmatch(term))
    return tuple(names)[:MAX_CATEGORIES]


def checked_category(text: str) -> str:
    """`text`, an arXiv category: `cs.CL`, `hep-th`, `cond-mat.str-el`. Raises ValueError."""
    if not _CATEGORY.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no arXiv category; write for instance cs.CL")
    return text

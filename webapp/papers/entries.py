"""A batch and its entries, from whichever source, and the limits that every entry must keep."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime

from assay_common.text import clean
from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import AnnounceType

MAX_TITLE = 2_000  # characters
MAX_ABSTRACT = 20_000
MAX_AUTHORS = 10_000
MAX_CATEGORIES = 100


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
    submitted_at: datetime | None = None  # version 1; only from the API
    updated_at: datetime | None = None  # this version; only from the API
    # Set where it differs from `version`: the API has the text of the latest version only.
    announced_version: int | None = None

    def __post_init__(self) -> None:
        for name, most in (("title", MAX_TITLE), ("abstract", MAX_ABSTRACT)):
            length = len(getattr(self, name))
            if not length:
                raise BadEntryError(f"it has no {name}")
            if length > most:
                raise BadEntryError(f"its {name} has {length} characters")
        for name, most in (("authors", MAX_AUTHORS), ("categories", MAX_CATEGORIES)):
            count = len(getattr(self, name))
            if count > most:
                raise BadEntryError(f"it has {count} {name}")

    @property
    def key(self) -> tuple[str, int]:
        """Two announcements with the same key have the same text."""
        return self.arxiv_id, self.version


@dataclass(frozen=True)
class BadEntry:
    """An entry that was rejected or repaired, as `Listing.problems` keeps it."""

    item: str
    reason: str

    @property
    def paper(self) -> tuple[str, int | None] | None:
        """The identifier and version of the paper that the entry names, if it names one."""
        with suppress(ValueError):
            return parse_identifier(self.item)
        return None


@dataclass(frozen=True)
class Batch:
    """One source's announcements in one category on one day, each paper once."""

    category: str
    date: date
    entries: tuple[Entry, ...]
    problems: tuple[BadEntry, ...] = ()
    note: str = ""  # for the audit: a remark on the batch as a whole
    etag: str = field(default="", compare=False)
    last_modified: str = field(default="", compare=False)


def merged(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The most significant announcement of each paper, in order of first appearance."""
    best: dict[str, Entry] = {}
    for entry in entries:
        best[entry.arxiv_id] = min(best.get(entry.arxiv_id, entry), entry, key=_weight)
    return tuple(best.values())


def _weight(entry: Entry) -> tuple[int, int]:
    return entry.type.precedence, -entry.version


def paragraph(text: str) -> str:
    """The text cleaned, line by line, without trailing blanks."""
    return "\n".join(line.rstrip() for line in clean(text).split("\n")).strip()

"""Interpretation of pasted interests: topics, papers, authors, categories, sentences, references.

    understand("LLM agents, RAG\n2603.12201\nZ. Zhang")

Each part is understood as one thing and answered; nothing is dropped in silence. The number of
parts and of searches is bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from django.utils.translation import gettext as _

from webapp.digests.profiles.keyword_frequencies import count_frequencies
from webapp.digests.scoring.terms import AUTHOR, PatternError, term
from webapp.library.importing import named_in
from webapp.library.references import is_export
from webapp.papers.identifiers import category_in, identifiers_in, parse_identifier
from webapp.papers.models import Paper
from webapp.papers.names import wrote
from webapp.papers.search import search

MAX_PARTS = 100
SEARCHES = 60  # of one text
LIST_WORDS = 4  # of a part between commas, at most: longer ones are a sentence
SENTENCE_WORDS = 7  # from which a line is an interest
DESCRIBED = 3  # papers that an interest brings
HOMONYMS = 12  # names that are listed
LATEST = 10  # papers of an author that count as liked

Kind = Literal[
    "words",
    "papers",
    "author",
    "name",  # of nobody here: an author or a topic
    "missing",  # an author of no paper here
    "categories",
    "excluded",
    "interest",
    "refused",
]
_SPLIT = re.compile(r"[,;\t、，；]")
_BULLET = re.compile(r"^\s*(?:[-*•·]|\d{1,2}[.)](?=\s))\s*")
_INITIALS = re.compile(r"(?:\w\.?[\s-]*){1,3}(?<=\.)\s*\S+", re.UNICODE)
_WORD = re.compile(r"\w+")
_PARTICLES = frozenset(
    {"al", "bin", "da", "de", "del", "den", "der", "di", "dos", "la", "van", "von"}
)
_EXCLUDED = re.compile(
    r"(?:(?:but )?(?:not|no)|except(?: for)?|excluding) (?P<topic>.{2,})", re.IGNORECASE
)
_ADDRESS = re.compile(r"https?://\S+|www\.\S+", re.IGNORECASE)
_ZOTERO = re.compile(r"\bzotero\.org/", re.IGNORECASE)


@dataclass(frozen=True)
class Homonym:
    """A person of this name, with categories and co-authors from the papers here."""

    name: str
    papers: int
    categories: tuple[str, ...]
    coauthors: tuple[str, ...]


@dataclass(frozen=True)
class PastedPart:
    """A part of the text, and how it was understood.

    `papers` are here and count as liked; `unknown` are identifiers that arXiv is asked for;
    `frequency`: of 1,000 recent papers, how many have these words.
    """

    text: str
    kind: Kind
    papers: tuple[Paper, ...] = ()
    unknown: tuple[str, ...] = ()
    authors: tuple[Homonym, ...] = ()
    frequency: float | None = None
    problem: str = ""


@dataclass
class Understood:
    """The parts of a text; `texts` are references without a paper here: abstracts by title."""

    parts: list[PastedPart] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False  # it has more parts than are read
    is_zotero: bool = False  # it names a Zotero library, which is connected elsewhere

    @property
    def keywords(self) -> list[str]:
        """Topics, and authors of no paper here, as keywords of a feed."""
        topics = [part.text for part in self.parts if part.kind in {"words", "name"}]
        return [*topics, *(f"{AUTHOR}{name}" for name in self.missing)]

    @property
    def missing(self) -> list[str]:
        """Names of authors of no paper here, whose papers arXiv is asked for."""
        return [part.text for part in self.parts if part.kind in {"missing", "name"}]

    @property
    def excluded(self) -> list[str]:
        """Topics that the feed leaves out."""
        return [part.text for part in self.parts if part.kind == "excluded"]

    @property
    def categories(self) -> list[str]:
        """The categories of arXiv that were named."""
        return [
            name for part in self.parts if part.kind == "categories" for name in part.text.split()
        ]

    @property
    def papers(self) -> list[Paper]:
        """Papers that count as liked, each once; those of an interest are examples."""
        named = [part for part in self.parts if part.kind != "interest"]
        return list({paper.pk: paper for part in named for paper in part.papers}.values())

    @property
    def unknown(self) -> list[str]:
        """Identifiers of papers that arXiv is asked for."""
        return list(dict.fromkeys(name for part in self.parts for name in part.unknown))

    @property
    def authors(self) -> list[Homonym]:
        """Authors whose names were given, and homonyms."""
        return [author for part in self.parts for author in part.authors]


def understand(text: str) -> Understood:
    """Read what was pasted. Raises UnreadableError for an export that takes too long."""
    understood = Understood(is_zotero=bool(_ZOTERO.search(text)))
    if is_export(text):
        named = named_in(text)
        understood.texts = named.texts
        understood.parts.append(PastedPart("", "papers", tuple(named.papers), tuple(named.unknown)))
        return understood
    reader = _PartReader()
    parts = list(islice(reader.parts(text), MAX_PARTS + 1))
    understood.is_cut = len(parts) > MAX_PARTS
    understood.parts = parts[:MAX_PARTS]
    for part in understood.parts:
        if part.kind == "interest":
            understood.texts[part.text[:500]] = ""
    words = [part.text for part in understood.parts if part.kind == "words"]
    frequencies = count_frequencies(words)
    understood.parts = [
        PastedPart(part.text, "words", frequency=frequencies.get(part.text))
        if part.kind == "words"
        else part
        for part in understood.parts
    ]
    return understood


class _PartReader:
    """Reader of the parts, one after the other, with a bounded number of searches."""

    def __init__(self) -> None:
        self._searches = SEARCHES

    def parts(self, text: str) -> Iterator[PastedPart]:
        """Yield the parts of a text: its lines, and what stands between commas in lists."""
        seen: set[str] = set()
        for line in text.splitlines():
            bare = _bare(_BULLET.sub("", line))
            listed = [_bare(part).rstrip(".") for part in _SPLIT.split(bare)]
            is_list = len(listed) > 1 and all(len(part.split()) <= LIST_WORDS for part in listed)
            if is_list and (part := self._titled(bare)):
                yield part
                continue
            for piece in listed if is_list else [bare]:
                if piece and piece.casefold() not in seen:
                    seen.add(piece.casefold())
                    yield self.read(piece)

    def read(self, piece: str) -> PastedPart:
        """Interpret a part as the first thing that it can be."""
        readings = (
            _identifiers,
            self._named_author,
            _categories,
            _address,
            self._titled,
            self._interest,
            self._excluded,
            self._author,
        )
        for reading in readings:
            if part := reading(piece):
                return part
        if _INITIALS.fullmatch(piece):
            return PastedPart(piece, "missing")
        is_unknown = _is_like_a_name(piece) and not self._search(piece)
        return _topic(piece, "name" if is_unknown else "words")

    def _search(self, text: str) -> list[Paper]:
        if self._searches <= 0:
            return []
        self._searches -= 1
        return search(text, relax=False).papers

    def _titled(self, piece: str) -> PastedPart | None:
        """Return the paper with this title."""
        words = re.findall(r"\w+", piece.casefold())
        if len(words) < 3:
            return None
        for paper in self._search(" ".join(f"title:{word}" for word in words[:12])):
            if re.findall(r"\w+", paper.title.casefold()) == words:
                return PastedPart(piece, "papers", (paper,))
        return None

    def _named_author(self, piece: str) -> PastedPart | None:
        """Return the author whose name follows `author:`."""
        if not piece.casefold().startswith(AUTHOR):
            return None
        name = piece[len(AUTHOR) :].strip()
        return self._author(name) or PastedPart(name, "missing")

    def _author(self, name: str) -> PastedPart | None:
        """Return the author with this full name, or with its initials, or None."""
        if len(name.split()) > LIST_WORDS:
            return None
        if len(_WORD.findall(name)) < 2:  # a surname alone is a word like others
            return None
        papers = self._search('author:"{}"'.format(name.replace('"', "")))
        theirs = [paper for paper in papers if wrote(name, paper.author_names)]
        if not theirs:
            return None
        authors = _homonyms(name, theirs)
        latest = theirs[:LATEST] if len(authors) == 1 else []
        return PastedPart(name, "author", tuple(latest), authors=authors)

    def _excluded(self, piece: str) -> PastedPart | None:
        """Return the topic behind a minus or a "not", unless papers have the whole as a topic."""
        if piece.startswith(("-", "−")) and len(piece) > 2:
            return _topic(piece[1:], "excluded")
        left_out = _EXCLUDED.fullmatch(piece)
        if left_out and not self._search(f'"{piece}"'):
            return _topic(left_out["topic"], "excluded")
        return None

    def _interest(self, piece: str) -> PastedPart | None:
        """Return an interest with the papers that fit it best."""
        if len(piece.split()) < SENTENCE_WORDS:
            return None
        if self._searches <= 0:
            return PastedPart(piece, "interest")
        self._searches -= 1
        return PastedPart(piece, "interest", tuple(search(piece).papers[:DESCRIBED]))


def _bare(text: str) -> str:
    return " ".join(text.strip(" \t\"'“”‘’«»").split())


def _topic(piece: str, kind: Kind) -> PastedPart:
    try:
        term(piece)
    except PatternError as error:
        return PastedPart(piece, "refused", problem=str(error))
    return PastedPart(piece, kind)


def _is_like_a_name(piece: str) -> bool:
    """True for `Ludwig van der Noot`, not for `Mixture of Experts` and `LLM Agents`."""
    words = [word for word in piece.split() if word not in _PARTICLES]
    return 2 <= len(words) <= LIST_WORDS and all(
        word[0].isupper() and not (word.isupper() and len(word.strip(".")) > 1) for word in words
    )


def _categories(piece: str) -> PastedPart | None:
    """Return the categories of a part that names nothing else."""
    names = [word for word in piece.split() if word not in {"and", "&", "+"}]
    categories = [category_in(name) for name in names]
    if not categories or not all(categories):
        return None
    return PastedPart(" ".join(categories), "categories")


def _identifiers(piece: str) -> PastedPart | None:
    """Return the papers that are named by identifiers or addresses."""
    try:
        names = [parse_identifier(piece)[0]]
    except ValueError:
        names = identifiers_in(piece)
    here = Paper.objects.in_bulk(names, field_name="arxiv_id")
    unknown = tuple(name for name in names if name not in here)
    papers = tuple(here[name] for name in names if name in here)
    return PastedPart(piece, "papers", papers, unknown) if names else None


def _address(piece: str) -> PastedPart | None:
    if _ADDRESS.fullmatch(piece):
        return PastedPart(piece, "refused", problem=_("names no arXiv paper"))
    return None


def _homonyms(name: str, papers: Iterable[Paper]) -> tuple[Homonym, ...]:
    """Return the people of a name: each full name, with categories and co-authors."""
    by_name: dict[str, list[Paper]] = {}
    for paper in papers:
        for author in paper.author_names:
            if wrote(name, [author]):
                by_name.setdefault(author, []).append(paper)
    people = []
    for full, theirs in sorted(by_name.items(), key=lambda item: (-len(item[1]), item[0]))[
        :HOMONYMS
    ]:
        categories = Counter(paper.primary_category for paper in theirs)
        others = Counter(
            author for paper in theirs for author in paper.author_names if author != full
        )
        people.append(
            Homonym(
                full,
                len(theirs),
                tuple(category for category, _ in categories.most_common(3)),
                tuple(author for author, _ in others.most_common(3)),
            )
        )
    return tuple(people)

"""Full-text search over titles, abstracts and authors, the latest papers first.

The index is the database's own (`migrations/0002_search.py`). Order is by arrival, not by
relevance: readers look for what is new, and a ranking would have to weigh every match of a common
word, which no index does within the time a page has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from django.db import connection
from django.db.models import F, Min

from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import Paper

PAGE = 25  # papers
MAX_PAGES = 40
MAX_TERMS = 16
MAX_QUERY = 400  # characters read
_TERM = re.compile(r'(?P<no>-?)(?:(?P<field>ti|au|abs):)?(?P<text>"[^"]*"|[^\s"]+)', re.I)
_CATEGORY = re.compile(r"[a-z-]+\.(?:[A-Z]{2}|[a-z]+-[a-z]+)")
_WORD = re.compile(r"[^\W_]+")
_COLUMN = {"ti": "title", "au": "authors", "abs": "abstract"}
_WEIGHT = {"title": "A", "authors": "B", "abstract": "C", "categories": "D"}


@dataclass(frozen=True)
class Term:
    """Words that must (or must not) stand one after the other, in one column or anywhere."""

    words: tuple[str, ...]
    column: str = ""
    prefix: bool = False  # the last word is the beginning of one
    exclude: bool = False


@dataclass(frozen=True)
class Results:
    """One page of papers; `has_next` where there are more."""

    papers: list[Paper] = field(default_factory=list)
    page: int = 1
    has_next: bool = False


def search(
    query: str, category: str | None = None, since: date | None = None, page: int = 1
) -> Results:
    """The papers that hold every term of `query`, the last to arrive first.

    Terms: words (with their inflections), "phrases", beginnings (`quant*`), `ti:`, `au:` and
    `abs:` for one field, `cs.CL` for a category, `-word` to exclude; an identifier finds its
    paper. `category` and `since` (first announced on or after) narrow it; a category alone lists
    its papers. Any string is a valid query; one without a single word finds nothing.
    """
    page = max(1, min(page, MAX_PAGES))
    paper = _by_identifier(query)
    if paper is not None:
        return Results([paper] if page == 1 else [], page)
    terms = parse(query)
    if category:
        terms.append(Term((_category_word(category),), "categories"))
    wanted = {term for term in terms if not term.exclude}
    unwanted = {replace(term, exclude=False) for term in terms if term.exclude}
    if not wanted or wanted & unwanted:
        return Results([], page)
    lowest = 0
    if since is not None:
        # Bounds the walk: a common word is not followed into the years before.
        recent = Paper.objects.filter(announced_on__gte=since)
        # "+ 0": else SQLite walks the papers by key until one is recent, which is nearly all.
        lowest = recent.aggregate(lowest=Min(F("pk") + 0))["lowest"] or 0
        if not lowest:
            return Results([], page)
    keys = _keys(terms, lowest, since, (page - 1) * PAGE)
    papers = Paper.objects.in_bulk(keys[:PAGE])
    # A paper may go between the two queries: the sample does when real papers come.
    found = [papers[key] for key in keys[:PAGE] if key in papers]
    return Results(found, page, has_next=len(keys) > PAGE and page < MAX_PAGES)


def parse(query: str) -> list[Term]:
    """The terms of a reader's query; what holds no letter or digit is left out."""
    terms: list[Term] = []
    for match in _TERM.finditer(query[:MAX_QUERY]):
        text = match["text"]
        column = _COLUMN.get((match["field"] or "").lower(), "")
        words = tuple(word.lower() for word in _WORD.findall(text))
        if not column and _CATEGORY.fullmatch(text):
            column, words = "categories", (_category_word(text),)
        if words:
            # One letter begins a quarter of all words: not worth a reader's wait.
            prefix = text.endswith("*") and len(words[-1]) > 1
            terms.append(Term(words, column, prefix, bool(match["no"])))
    return terms[:MAX_TERMS]


def _by_identifier(query: str) -> Paper | None:
    try:
        identifier, _ = parse_identifier(query)
    except ValueError:
        return None
    return Paper.objects.filter(arxiv_id=identifier).first()


def _keys(terms: Sequence[Term], lowest: int, since: date | None, offset: int) -> list[int]:
    """Primary keys of a page of matches and one more, the latest first."""
    day = since or date.min
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_POSTGRESQL, [_tsquery(terms), lowest, day, PAGE + 1, offset])
        else:
            statement = _SQLITE if since is None else _SQLITE_SINCE
            since_day = [] if since is None else [day.isoformat()]
            cursor.execute(statement, [_fts(terms), lowest, *since_day, PAGE + 1, offset])
        return [row[0] for row in cursor.fetchall()]


_SQLITE = """
    SELECT rowid FROM papers_search WHERE papers_search MATCH %s AND rowid >= %s
    ORDER BY rowid DESC LIMIT %s OFFSET %s
"""
_SQLITE_SINCE = """
    SELECT found.rowid FROM papers_search AS found
    CROSS JOIN papers_paper AS paper ON paper.id = found.rowid
    WHERE papers_search MATCH %s AND found.rowid >= %s AND paper.announced_on >= %s
    ORDER BY found.rowid DESC LIMIT %s OFFSET %s
"""
_POSTGRESQL = """
    SELECT id FROM papers_paper
    WHERE search @@ to_tsquery('english', %s) AND id >= %s
        AND coalesce(announced_on, '0001-01-01') >= %s
    ORDER BY id DESC LIMIT %s OFFSET %s
"""


def _fts(terms: Sequence[Term]) -> str:
    """The terms as an FTS5 expression; words hold letters and digits only, so quotes hold them."""
    wanted = " AND ".join(_fts_term(term) for term in terms if not term.exclude)
    unwanted = "".join(f" NOT {_fts_term(term)}" for term in terms if term.exclude)
    return f"({wanted}){unwanted}"


def _fts_term(term: Term) -> str:
    column = f"{{{term.column or 'title abstract authors'}}} : "
    return f'{column}"{" ".join(term.words)}"{" *" if term.prefix else ""}'


def _tsquery(terms: Sequence[Term]) -> str:
    """The terms as a tsquery; see `_fts`."""
    return " & ".join(f"{'!' if term.exclude else ''}({_ts_term(term)})" for term in terms)


def _ts_term(term: Term) -> str:
    label = _WEIGHT.get(term.column, "ABC")
    last = len(term.words) - 1
    return " <-> ".join(
        f"'{word}':{'*' if term.prefix and at == last else ''}{label}"
        for at, word in enumerate(term.words)
    )


def _category_word(category: str) -> str:
    """The word that stands for a category in the index."""
    word = category.lower().replace(".", "0").replace("-", "1")
    return "".join(_WORD.findall(word)) or "none"

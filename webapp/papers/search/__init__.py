"""Full-text search over titles, abstracts and authors, ranked or the latest first.

    search("sparse attention", order="relevance")

`query` reads what a reader typed, `index` asks the database for candidates, `ranking` orders them,
`marking` shows where the words stand, `spelling` guesses at words that no paper holds.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from webapp.papers.days import eastern_date, now
from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import Paper
from webapp.papers.search import index, spelling
from webapp.papers.search.marking import Marked, marked
from webapp.papers.search.query import Query, Term, category_word, parse
from webapp.papers.search.ranking import by_relevance

PAGE = 25  # papers
MAX_PAGES = 40
CANDIDATES = 300  # ranked for relevance, of each of two looks: in the title, and anywhere
RANKED_BY = ("arxiv_id", "title", "abstract", "authors", "announced_on")
COUNTED = 1_000  # matches; above that a page says "more than"

Order = Literal["relevance", "newest"]
# Fields that other rooms answer for, by name: a value to the keys of the papers it names.
filters: dict[str, Callable[[str], list[int]]] = {}


@dataclass(frozen=True)
class Results:
    """One page of papers of `count` matches; `has_next` where there are more.

    `more` says that there are more matches than `count`. `dropped` names words left out because no
    paper holds them; `loosened` says that phrases were taken for their words; `suggestion` is the
    query with these words as they may have been meant. `query` is None where nothing was asked.
    """

    papers: list[Paper] = field(default_factory=list)
    page: int = 1
    has_next: bool = False
    count: int = 0
    more: bool = False
    dropped: tuple[str, ...] = ()
    loosened: bool = False
    suggestion: str = ""
    query: Query | None = None

    def marked(self) -> list[Marked]:
        """The papers with the words that were sought marked in their texts."""
        return marked(self.papers, self.query.terms if self.query else ())


def search(
    text: str,
    category: str | None = None,
    since: date | None = None,
    page: int = 1,
    order: Order = "relevance",
    *,
    relax: bool = True,
) -> Results:
    """The papers that hold every term of `text`, the most relevant or the latest first.

    Terms: words (with their inflections, hyphened or joined), "phrases", beginnings (`quant*`),
    `title:`, `author:` and `abs:` for one field, `cat:cs.CL` or `cs.CL` for a category,
    `after:2026-05`, `before:`, `year:` for days announced, `-word` to exclude; an identifier finds
    its paper. `category` and `since` (first announced on or after) narrow it; a category alone
    lists its papers. Any string is a valid query; one that asks for nothing finds nothing. Where
    no paper holds everything, with `relax` phrases count as their words and words that none holds
    are left out.
    """
    page = max(1, min(page, MAX_PAGES))
    paper = _by_identifier(text)
    if paper is not None:
        return Results([paper] if page == 1 else [], page, count=1)
    query = parse(text, tuple(filters))
    if category:
        query = replace(query, terms=(*query.terms, Term((category_word(category),), "categories")))
    if not _answerable(query):
        return Results([], page)
    if since is not None:
        query = replace(query, since=max(since, query.since or since))
    results = _page(query, page, order)
    if results.papers or page > 1 or not relax:
        return results
    relaxed, missing = _relaxed(query)
    suggestion = spelling.corrected(text, missing)
    if relaxed == query:
        return replace(results, suggestion=suggestion)
    results = _page(relaxed, page, order)
    return replace(results, dropped=missing, loosened=not missing, suggestion=suggestion)


def _page(query: Query, page: int, order: Order) -> Results:
    allowed = _allowed(query)
    look = COUNTED + 1 if order == "relevance" else max(COUNTED, page * PAGE) + 1
    keys = index.matches(query, look, allowed)
    count, more = min(len(keys), COUNTED), len(keys) > COUNTED
    first, end = (page - 1) * PAGE, page * PAGE
    if order == "newest" or not any(_is_rankable(term) for term in query.terms):
        found, further = _load(keys[first:end]), len(keys) > end
    else:
        if more:  # not all can be ranked: those with the words in the title, and the latest
            keys = list(dict.fromkeys(_in_title(query, allowed) + keys[:CANDIDATES]))
        ranked = by_relevance(_load(keys, RANKED_BY), query.terms, eastern_date(now()))
        found, further = _load([one.pk for one in ranked[first:end]]), len(ranked) > end
    return Results(found, page, further and page < MAX_PAGES, count, more, query=query)


def _in_title(query: Query, allowed: list[int] | None) -> list[int]:
    """The latest papers that hold every plain term in the title."""
    terms = [
        replace(term, column="title") if not term.column and not term.exclude else term
        for term in query.terms
    ]
    return index.matches(replace(query, terms=tuple(terms)), CANDIDATES, allowed)


def _load(keys: list[int], fields: Iterable[str] = ()) -> list[Paper]:
    """The papers in the order of `keys`; one may have gone since the index was asked.

    All of them, or of a thousand to be ranked the `fields` that it takes.
    """
    papers = Paper.objects.only(*fields).in_bulk(keys)
    return [papers[key] for key in keys if key in papers]


def _answerable(query: Query) -> bool:
    """Whether something is asked for, and not the same thing excluded."""
    wanted = {term for term in query.terms if not term.exclude}
    unwanted = {replace(term, exclude=False) for term in query.terms if term.exclude}
    narrowed = bool(query.named or query.since or query.until) and not unwanted
    return (bool(wanted) or narrowed) and not wanted & unwanted


def _is_rankable(term: Term) -> bool:
    return not term.exclude and term.column != "categories"


def _allowed(query: Query) -> list[int] | None:
    """The keys that every named filter lets through; None where there is no such filter."""
    named = [set(filters[name](value)) for name, value in query.named]
    return sorted(set.intersection(*named)) if named else None


def _relaxed(query: Query) -> tuple[Query, tuple[str, ...]]:
    """The query with phrases as words, without words that no paper holds, and these words.

    Where nothing else is left of it, the query as it is.
    """
    kept: list[Term] = []
    dropped: list[str] = []
    for term in query.terms:
        if not _is_rankable(term):
            kept.append(term)
            continue
        for word in term.words:
            single = Term((word,), term.column, term.prefix and word == term.words[-1])
            if index.matches(Query((single,)), 1):
                kept.append(single)
            else:
                dropped.append(word)
    relaxed = replace(query, terms=tuple(dict.fromkeys(kept)))
    known = any(_is_rankable(term) for term in kept)
    return relaxed if known and _answerable(relaxed) else query, tuple(dropped)


def _by_identifier(text: str) -> Paper | None:
    with suppress(ValueError):
        return Paper.objects.filter(arxiv_id=parse_identifier(text)[0]).first()
    return None


__all__ = ["MAX_PAGES", "PAGE", "Order", "Results", "filters", "parse", "search"]

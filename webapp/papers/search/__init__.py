"""Full-text search over titles, abstracts and authors, ranked or the latest first.

    search("sparse attention", order="relevance")

`query` parses what a reader typed, `index` finds candidates in the database, `ranking` orders them,
`marking` highlights the words, `spelling` suggests corrections of words that no paper contains.
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
CANDIDATES = 200  # ranked for relevance, of each of two looks: in the title, and anywhere
RANKED_BY = ("arxiv_id", "title", "abstract", "authors", "announced_on")
COUNTED = 1_000  # matches; above that a page says "more than"

Order = Literal["relevance", "newest"]
# Fields that other apps define, by name: each maps a value to the keys of its papers.
filters: dict[str, Callable[[str], list[int]]] = {}


@dataclass(frozen=True)
class Results:
    """One page of papers of `count` matches; `has_next` where there are more.

    `more`: there are more matches than `count`. `dropped`: words left out because no paper contains
    them. `loosened`: phrases were matched as separate words. `suggestion`: the query with the
    dropped words corrected. `query` is None for an empty query.
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
        """The papers with the words of the query marked in their texts."""
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
    """The papers that match every term of `text`, the most relevant or the latest first.

    Terms: words (with their inflections, hyphenated or joined), "phrases", prefixes (`quant*`),
    `title:`, `author:` and `abs:` for one field, `cat:cs.CL` or `cs.CL` for a category, `method:`
    and whatever else `filters` has, `after:2026-05`, `before:`, `year:` for days announced, a `-`
    before any but a date to exclude it; an identifier finds its paper. `category` and `since`
    (first announced on or after) narrow it; a category alone lists its papers. Any string is a
    valid query; an empty one finds nothing. Where no paper matches everything, with `relax` phrases
    are matched as separate words and words that no paper contains are left out.
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
    query = _resolved(query)
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
    look = COUNTED + 1 if order == "relevance" else max(COUNTED, page * PAGE) + 1
    keys = index.matches(query, look)
    count, more = min(len(keys), COUNTED), len(keys) > COUNTED
    first, end = (page - 1) * PAGE, page * PAGE
    if order == "newest" or not any(_is_rankable(term) for term in query.terms):
        found, further = _load(keys[first:end]), len(keys) > end
    else:
        best = keys
        # Of too many to rank, take those with the words in the title, and the latest.
        if len(keys) > 2 * CANDIDATES:
            best = list(dict.fromkeys(_in_title(query) + keys[:CANDIDATES]))
        ranked = by_relevance(_load(best, RANKED_BY), query.terms, eastern_date(now()))
        # The others follow, the latest first.
        keys = list(dict.fromkeys([*(one.pk for one in ranked), *keys]))
        found, further = _load(keys[first:end]), len(keys) > end
    return Results(found, page, further and page < MAX_PAGES, count, more, query=query)


def _in_title(query: Query) -> list[int]:
    """The latest papers with every plain term in the title."""
    here = [
        one if one.exclude else replace(one, column=one.column or "title") for one in query.terms
    ]
    return index.matches(replace(query, terms=tuple(here)), CANDIDATES)


def _load(keys: list[int], fields: Iterable[str] = ()) -> list[Paper]:
    """The papers in the order of `keys`, without those deleted meanwhile.

    They have all `fields`, or only those given: ranking reads hundreds of papers.
    """
    papers = Paper.objects.only(*fields).in_bulk(keys)
    return [papers[key] for key in keys if key in papers]


def _answerable(query: Query) -> bool:
    """Whether something is asked for that is not also excluded."""
    wanted = {term for term in query.terms if not term.exclude}
    unwanted = {replace(term, exclude=False) for term in query.terms if term.exclude}
    named = any(not exclude for _, _, exclude in query.named)
    narrowed = bool(named or query.since or query.until) and not unwanted
    return (bool(wanted) or narrowed) and not wanted & unwanted


def _is_rankable(term: Term) -> bool:
    return not term.exclude and term.column != "categories"


def _resolved(query: Query) -> Query:
    """The query with the keys of the papers that its named fields allow and exclude."""
    found = [(set(filters[name](value)), exclude) for name, value, exclude in query.named]
    wanted = [keys for keys, exclude in found if not exclude]
    unwanted = set[int]().union(*(keys for keys, exclude in found if exclude))
    only = tuple(set.intersection(*wanted)) if wanted else None
    return replace(query, only=only, without=tuple(unwanted))


def _relaxed(query: Query) -> tuple[Query, tuple[str, ...]]:
    """The query with phrases as words, without words that no paper contains, and these words.

    The query itself if no other words remain.
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

"""Full-text search over titles, abstracts and authors, ranked or the latest first.

    search("sparse attention", order="relevance")

`query` parses what a reader typed, `index` finds candidates in the database, `ranking` orders them,
`marking` highlights the words, `spelling` suggests corrections of words that no paper contains.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from django.contrib.auth.models import User
from django.db.models import Max

from webapp.core.hooks import Hook, NamedHooks
from webapp.papers.days import eastern_date, now
from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import Paper
from webapp.papers.search import index, spelling
from webapp.papers.search.marking import MarkedPaper, marked
from webapp.papers.search.query import (
    UNSPACED,
    NamedField,
    Query,
    QueryError,
    QueryTerm,
    category_word,
    excluding,
    parse,
)
from webapp.papers.search.ranking import by_rare_words, by_relevance
from webapp.papers.search.words import IDLE, rarity, telling_sets

PAGE = 25  # papers
MAX_PAGES = 40
CANDIDATES = 200  # ranked for relevance, of each of two looks: in the title, and anywhere
FEW = 50  # papers with all words; if there are fewer, those with some of them follow
SOME = 50  # papers with some of the words, of SOUGHT that are compared
DEEP = 150  # of these are ordered by meaning, where an encoder is there
SOUGHT = 600
ENOUGH = 200  # candidates among which the best are looked for
SETS = 48  # of words that a paper must have one of
RANKED_BY = ("arxiv_id", "title", "abstract", "authors", "announced_on")
SEARCHED = ("papers", "methods", "vectors")  # the revisions on which a search's results depend
COUNTED = 1_000  # matches; above that a page says "more than"

Order = Literal["relevance", "newest"]
QUESTION = 4  # words of a query that is ordered by meaning
MEANT = 50  # papers that are ordered so, of those with all words
# Fields that other apps define, by name: each maps a value, for a reader or None, to the keys of
# its papers, or raises QueryError.
filters = NamedHooks[[str, User | None], Collection[int]]()


@Hook
def order_by_meaning(_question: str, keys: list[int], /) -> list[int]:
    """The keys of papers, the nearest to a question first, where there is an encoder."""
    return keys


@dataclass(frozen=True)
class SearchResults:
    """One page of papers of `count` matches; `has_next` where there are more.

    `some` papers follow that have only some of the words; they begin at place `some_from` of this
    page, if they do. `more`: there are more matches than `count`. `dropped`: words left out because
    no paper contains them. `loosened`: phrases were matched as separate words. `suggestion`: the
    query with the dropped words corrected, or without what "but not" names. `query` is None for an
    empty query, and for one that is refused: `problem` says why.
    """

    papers: list[Paper] = field(default_factory=list)
    page: int = 1
    has_next: bool = False
    count: int = 0
    more: bool = False
    some: int = 0
    some_from: int | None = None
    dropped: tuple[str, ...] = ()
    loosened: bool = False
    suggestion: str = ""
    query: Query | None = None
    problem: str = ""

    @property
    def is_unspaced(self) -> bool:
        """Whether it asks in Chinese or Japanese, as hardly any paper is written."""
        terms = self.query.terms if self.query else ()
        return any(UNSPACED.search(word) for term in terms for word in term.words)

    def marked(self) -> list[MarkedPaper]:
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
    reader: User | None = None,
) -> SearchResults:
    """The papers that match every term of `text`, the most relevant or the latest first.

    Terms: words (with their inflections, hyphenated or joined), "phrases", prefixes (`quant*`),
    `title:`, `author:` and `abs:` for one field, `cat:cs.CL` or `cs.CL` for a category, `method:`
    and whatever else `filters` has, for `reader` if it is a reader's own, `after:2026-05`,
    `before:`, `year:` for days announced, a `-` before any but a date to exclude it, `OR` between
    two of which one is enough; an identifier finds its paper. `category` and `since`
    (first announced on or after) narrow it; a category alone lists its papers. An empty query
    finds nothing, and one with a field that nobody defines is refused. Where no paper matches
    everything, with `relax` phrases are matched as separate words and words that no paper contains
    are left out; and if fewer than FEW papers have all words, those follow that have some, the
    rarest and most of them first.
    """
    page = max(1, min(page, MAX_PAGES))
    paper = _by_identifier(text)
    if paper is not None:
        return SearchResults([paper] if page == 1 else [], page, count=1)
    try:
        query = _resolved(parse(text, tuple(filters)), reader)
    except QueryError as error:
        return SearchResults([], page, problem=str(error))
    if category:
        query = replace(
            query, terms=(*query.terms, QueryTerm((category_word(category),), "categories"))
        )
    if not _answerable(query):
        return SearchResults([], page)
    if since is not None:
        query = replace(query, since=max(since, query.since or since))
    keys = _matches(query, page, order)
    if keys or not relax:
        some = _having_some(query, keys, order) if relax else []
        return replace(_page(query, page, order, keys, some), suggestion=excluding(text))
    relaxed, missing = _relaxed(query)
    suggestion = spelling.corrected(text, missing) or excluding(text)
    if relaxed != query:
        keys = _matches(relaxed, page, order)
    # A phrase in quotes holds, unless no paper at all has it.
    some = _having_some(query, keys, order) or _having_some(relaxed, keys, order)
    results = _page(relaxed, page, order, keys, some)
    if relaxed == query or (some and not keys):
        return replace(results, suggestion=suggestion)
    return replace(results, dropped=missing, loosened=not missing, suggestion=suggestion)


def matching(text: str, keys: Sequence[int], reader: User) -> list[int]:
    """Those of `keys` that have every term of `text`, the most relevant first.

    Raises QueryError.
    """
    if paper := _by_identifier(text):
        return [paper.pk] if paper.pk in keys else []
    query = _resolved(parse(text, tuple(filters)), reader)
    if not _answerable(query):
        return []
    among = set(keys) if query.only is None else set(keys) & set(query.only)
    found = index.matches(replace(query, only=tuple(among)), len(among)) if among else []
    if any(_is_rankable(term) for term in query.terms):
        today = eastern_date(now())
        ranked = by_relevance(_load(found, RANKED_BY), query.terms, today)
        found = [paper.pk for paper in ranked]
    return found


def _matches(query: Query, page: int, order: Order) -> list[int]:
    """Keys of the papers that have every term, but for words such as "how" if it has others."""
    telling = tuple(term for term in query.terms if term.exclude or not term.is_idle)
    if any(not term.exclude for term in telling):
        query = replace(query, terms=telling)
    look = COUNTED + 1 if order == "relevance" else max(COUNTED, page * PAGE) + 1
    return index.matches(query, look)


def _page(query: Query, page: int, order: Order, keys: list[int], some: list[int]) -> SearchResults:
    """A page of the papers `keys` that match, and then of those with some of the words."""
    count, more = min(len(keys), COUNTED), len(keys) > COUNTED
    first, end = (page - 1) * PAGE, page * PAGE
    if order == "relevance" and any(_is_rankable(term) for term in query.terms):
        best = keys
        # Of too many to rank, take those with the words in the title, and the latest.
        if len(keys) > 2 * CANDIDATES:
            best = list(dict.fromkeys(_in_title(query) + keys[:CANDIDATES]))
        ranked = by_relevance(_load(best, RANKED_BY), query.terms, eastern_date(now()))
        best = [paper.pk for paper in ranked]
        # The others follow, the latest first.
        keys = list(dict.fromkeys([*_nearest(query, best), *keys]))
    shown = [*keys, *some]
    papers = _load(shown[first:end])
    with_all = set(keys)
    begins = next((at for at, paper in enumerate(papers) if paper.pk not in with_all), None)
    has_next = len(shown) > end and page < MAX_PAGES
    return SearchResults(papers, page, has_next, count, more, len(some), begins, query=query)


def _having_some(query: Query, keys: list[int], order: Order) -> list[int]:
    """Keys of the best papers with some of the query's words, where few (`keys`) have all.

    Phrases in quotes, fields and excluded words hold for these too.
    """
    if len(keys) >= FEW:
        return []
    free = [term for term in query.terms if _is_free(term)]
    words = {
        word: QueryTerm((word,), prefix=term.prefix and word == term.words[-1])
        for term in free
        for word in term.words
        if word not in IDLE
    }
    if len(words) < 2:
        return []
    beside = replace(query, terms=tuple(term for term in query.terms if term not in free))
    rarities = [rarity(word) for word in words]
    terms = list(words.values())
    total = sum(rarities)
    papers = max(Paper.objects.aggregate(last=Max("pk"))["last"] or 1, SOUGHT)
    # First those with half of what the words tell; then those with so rare a set of them that, if
    # words were independent, SOUGHT papers had one; then those with any word.
    found: list[int] = []
    for enough in (total / 2, min(math.log(papers / SOUGHT), total / 3), 0.0):
        sets = [[terms[n] for n in numbers] for numbers in telling_sets(rarities, enough, SETS)]
        found = list(dict.fromkeys([*found, *index.having_any(sets, beside, SOUGHT)]))
        if len(found) >= ENOUGH:
            break
    found = found[:SOUGHT]
    texts = Paper.objects.filter(pk__in=found).values_list("pk", "title", "abstract")
    with_all = set(keys)
    best = [key for key in by_rare_words(texts, list(words)) if key not in with_all]
    best = _by_meaning(free, best[:DEEP])[:SOME]
    if order == "newest":
        return _listed_by_day(best)
    return best


def _nearest(query: Query, best: list[int]) -> list[int]:
    """The keys with the first MEANT ordered by meaning, if the query has QUESTION words.

    For one or two words, or a phrase, the title says more than an encoder.
    """
    free = [term for term in query.terms if _is_free(term)]
    if sum(len(term.words) for term in free) < QUESTION:
        return best
    return [*_by_meaning(free, best[:MEANT]), *best[MEANT:]]


def _by_meaning(terms: list[QueryTerm], keys: list[int]) -> list[int]:
    question = " ".join(word for term in terms for word in term.words)
    return order_by_meaning(question, keys)


def _listed_by_day(keys: list[int]) -> list[int]:
    return index.matches(Query(only=tuple(keys)), len(keys))


def _in_title(query: Query) -> list[int]:
    """The latest papers with every plain term in the title."""
    here = [
        term if term.exclude else replace(term, column=term.column or "title")
        for term in query.terms
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
    named = any(not named_field.exclude for named_field in query.named)
    narrowed = bool(named or query.since or query.until) and not unwanted
    return (bool(wanted) or narrowed) and not wanted & unwanted


def _is_rankable(term: QueryTerm) -> bool:
    return not term.exclude and term.column != "categories"


def _is_free(term: QueryTerm) -> bool:
    """Whether its words are words of a question, and no phrase, field or alternatives."""
    return _is_rankable(term) and not (term.quoted or term.column or term.others)


def _resolved(query: Query, reader: User | None) -> Query:
    """The query with the keys of the papers that its named fields allow and exclude.

    Raises QueryError.
    """
    found = [(_papers_of(named, reader), named.exclude) for named in query.named]
    wanted = [keys for keys, exclude in found if not exclude]
    unwanted = set[int]().union(*(keys for keys, exclude in found if exclude))
    only = tuple(set.intersection(*wanted)) if wanted else None
    return replace(query, only=only, without=tuple(unwanted))


def _papers_of(named: NamedField, reader: User | None) -> set[int]:
    """The papers of a named field and of its alternatives. Raises QueryError."""
    each = (filters[way.field](way.value, reader) for way in (named, *named.others))
    return set[int]().union(*each)


def _relaxed(query: Query) -> tuple[Query, tuple[str, ...]]:
    """The query with phrases as words, without words that no paper contains, and these words.

    The query itself if no other words remain.
    """
    kept: list[QueryTerm] = []
    dropped: list[str] = []
    for term in query.terms:
        if not _is_rankable(term) or term.others:
            kept.append(term)
            continue
        for word in term.words:
            single = QueryTerm((word,), term.column, term.prefix and word == term.words[-1])
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

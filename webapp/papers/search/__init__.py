"""Full-text search over titles, abstracts and authors, ranked or the latest first.

    search("sparse attention", order="relevance")

`query` parses what a reader typed, `index` finds candidates in the database, `ranking` orders them,
`marking` highlights the words, `spelling` suggests corrections of words that no paper contains.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from django.contrib.auth.models import User
from django.db.models import Max
from django.utils.translation import gettext

from webapp.core.hooks import Hook, NamedHooks
from webapp.papers.days import eastern_date, now
from webapp.papers.identifiers import LISTING, category_in, identifiers_in, parse_identifier
from webapp.papers.models import Paper
from webapp.papers.search import index, spelling
from webapp.papers.search.authors import papers_by
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
SOUGHT = 600
ENOUGH = 200  # candidates among which the best are looked for
SETS = 48  # of words that a paper must have one of
RANKED_BY = ("arxiv_id", "title", "abstract", "authors", "announced_on")
SEARCHED = ("papers", "methods", "vectors")  # the revisions on which a search's results depend
COUNTED = 1_000  # matches; above that a page says "more than"

Order = Literal["relevance", "newest"]
QUESTION = 4  # words of a query that is also asked by meaning
MEANT = 100  # papers that are nearest in meaning
RRF = 60  # of reciprocal rank fusion: what a first place is worth beside a second
_LIKE = re.compile(r"\s*(?:papers?\s+)?(?:like|similar\s+to)\s*:?\s+(\S+)\s*", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\S)(?:19|20)\d\d(?!\S)")
# Fields that other apps define, by name: each maps a value, for a reader or None, to the keys of
# its papers, or raises QueryError.
filters = NamedHooks[[str, User | None], Collection[int]]()


@Hook
def nearest_by_meaning(_question: str, _limit: int, /) -> list[int] | None:
    """Return the keys of the papers nearest to a question; None if no encoder knows them all."""
    return None


@Hook
def papers_like(_paper: Paper, _limit: int, /) -> list[int]:
    """Return the keys of papers that are like another, the most similar first."""
    return []


@dataclass(frozen=True)
class SearchResults:
    """One page of papers of `count` matches; `has_next` where there are more.

    `some` papers follow that have only some of the words; they begin at place `some_from` of this
    page, if they do. `by_meaning`: papers nearest in meaning are among them. `like`: they are like
    this paper. `absent`: the identifier that was asked for, of a paper that is not here.
    `corrected`: the query that was asked instead of a misspelled one. `more`: there are
    more matches than `count`. `dropped`: words left out because no paper contains them.
    `loosened`: phrases were matched as separate words. `suggestion`: the query with the dropped
    words corrected, or without what "but not" names. `query` is None for an empty query, and for
    one that is refused: `problem` says why.
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
    by_meaning: bool = False
    like: Paper | None = None
    absent: str = ""
    corrected: str = ""
    suggestion: str = ""
    query: Query | None = None
    problem: str = ""

    @property
    def is_unspaced(self) -> bool:
        """True if the query is in Chinese or Japanese, in which hardly any paper is written."""
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
    if listing := LISTING.fullmatch(text.strip()):
        text = category_in(listing[1]) or text
    if answer := _by_name(text, page, order):
        return answer
    if relax and _YEAR.fullmatch(text.strip()):
        text = f"year:{text.strip()}"
    options = Asked(category, since, page, order, reader)
    try:
        query = options.parse(text)
    except QueryError as error:
        return SearchResults([], page, problem=str(error))
    if not _answerable(query):
        return SearchResults([], page)
    keys = _matches(query, page, order)
    if keys or not relax:
        some = _having_some(query, keys, order) if relax else []
        near = _near_in_meaning(query, order) if relax else []
        return replace(_page(query, options, keys, some, near), suggestion=excluding(text))
    return (
        _by_names_within(text, page)
        or _read_otherwise(text, options)
        or _relaxed_search(text, query, options)
    )


@dataclass(frozen=True)
class Asked:
    """Options of a search beside its text."""

    category: str | None
    since: date | None
    page: int
    order: Order
    reader: User | None

    def parse(self, text: str) -> Query:
        """Return the query in a text, narrowed. Raises QueryError."""
        query = _resolved(parse(text, tuple(filters)), self.reader)
        if self.category:
            of_category = QueryTerm((category_word(self.category),), "categories")
            query = replace(query, terms=(*query.terms, of_category))
        if self.since is not None and _answerable(query):
            query = replace(query, since=max(self.since, query.since or self.since))
        return query


def _read_otherwise(text: str, options: Asked) -> SearchResults | None:
    """Return the answer to a text that no paper has, with its year as a day or its words corrected.

    None if that finds nothing either.
    """
    if year := _YEAR.search(text):
        query = options.parse(f"{text[: year.start()]} year:{year[0]} {text[year.end() :]}")
        if _answerable(query) and (keys := _matches(query, options.page, options.order)):
            return _page(query, options, keys, [])
    _, missing = _relaxed(options.parse(text))
    if corrected := spelling.corrected(text, missing):
        query = options.parse(corrected)
        if keys := _matches(query, options.page, options.order):
            return replace(_page(query, options, keys, []), corrected=corrected)
    return None


def _relaxed_search(text: str, query: Query, options: Asked) -> SearchResults:
    """Return papers with some of the words, where none has them all."""
    relaxed, missing = _relaxed(query)
    suggestion = spelling.corrected(text, missing) or excluding(text)
    keys = _matches(relaxed, options.page, options.order) if relaxed != query else []
    # A phrase in quotes holds, unless no paper at all has it.
    some = _having_some(query, keys, options.order) or _having_some(relaxed, keys, options.order)
    results = _page(relaxed, options, keys, some, _near_in_meaning(query, options.order))
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
    candidates = index.matches(replace(query, only=tuple(among)), len(among)) if among else []
    if any(_is_rankable(term) for term in query.terms):
        today = eastern_date(now())
        ranked = by_relevance(_load(candidates, RANKED_BY), query.terms, today)
        candidates = [paper.pk for paper in ranked]
    return candidates


def _matches(query: Query, page: int, order: Order) -> list[int]:
    """Keys of the papers that have every term, but for words such as "how" if it has others."""
    telling = tuple(term for term in query.terms if term.exclude or not term.is_idle)
    if any(not term.exclude for term in telling):
        query = replace(query, terms=telling)
    look = COUNTED + 1 if order == "relevance" else max(COUNTED, page * PAGE) + 1
    return index.matches(query, look)


def _by_name(text: str, page: int, order: Order) -> SearchResults | None:
    """Return the answer to an identifier, to an address, or to "papers like" a paper."""
    if paper := _by_identifier(text):
        return SearchResults([paper] if page == 1 else [], page, count=1)
    if named := identifiers_in(text, strict=True):
        return SearchResults([], page, absent=named[0])
    if _ADDRESS.fullmatch(text.strip()):
        problem = gettext("This address names no arXiv paper.")
        return _by_names_within(text, page) or SearchResults([], page, problem=problem)
    if (like := _LIKE.fullmatch(text)) and (paper := _by_identifier(like[1])):
        return _like(paper, page, order)
    return None


def _by_names_within(text: str, page: int) -> SearchResults | None:
    """Return the papers whose identifiers stand among words, as in `[2601.01002] A title`.

    None without any; the first is `absent` if none is here.
    """
    names = identifiers_in(text)
    if not names:
        return None
    here = Paper.objects.in_bulk(names, field_name="arxiv_id")
    papers = [here[name] for name in names if name in here]
    absent = "" if papers else names[0]
    return SearchResults(papers if page == 1 else [], page, count=len(papers), absent=absent)


def _like(paper: Paper, page: int, order: Order) -> SearchResults:
    """Return the papers similar to another."""
    keys = papers_like(paper, 2 * PAGE)
    if order == "newest":
        keys = _listed_by_day(keys)
    first, end = (page - 1) * PAGE, page * PAGE
    return SearchResults(_load(keys[first:end]), page, len(keys) > end, len(keys), like=paper)


def _page(
    query: Query, options: Asked, keys: list[int], some: list[int], near: Sequence[int] = ()
) -> SearchResults:
    """Return a page of the papers that match, then of those with some of the words.

    Papers `near` in meaning are merged into both.
    """
    page, order = options.page, options.order
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
        keys = list(dict.fromkeys([*best, *keys]))
    if near:
        joined = _fused([*keys, *some], near)
        count, more = min(len(joined), COUNTED), more or len(joined) > COUNTED
        has_next = len(joined) > end and page < MAX_PAGES
        papers = _load(joined[first:end])
        return SearchResults(papers, page, has_next, count, more, by_meaning=True, query=query)
    shown = [*keys, *some]
    papers = _load(shown[first:end])
    with_all = set(keys)
    begins = next((offset for offset, paper in enumerate(papers) if paper.pk not in with_all), None)
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
    candidates: list[int] = []
    for enough in (total / 2, min(math.log(papers / SOUGHT), total / 3), 0.0):
        sets = [[terms[n] for n in numbers] for numbers in telling_sets(rarities, enough, SETS)]
        candidates = list(dict.fromkeys([*candidates, *index.having_any(sets, beside, SOUGHT)]))
        if len(candidates) >= ENOUGH:
            break
    candidates = candidates[:SOUGHT]
    texts = Paper.objects.filter(pk__in=candidates).values_list("pk", "title", "abstract")
    with_all = set(keys)
    best = [key for key in by_rare_words(texts, list(words)) if key not in with_all]
    best = best[:SOME]
    if order == "newest":
        return _listed_by_day(best)
    return best


def _near_in_meaning(query: Query, order: Order) -> list[int]:
    """Return the papers nearest in meaning to a question that its other terms allow.

    For one or two words, or a phrase, the title tells more than an encoder.
    """
    if order != "relevance":
        return []
    free = [term for term in query.terms if _is_free(term)]
    words = [word for term in free for word in term.words]
    if len(words) < QUESTION:
        return []
    keys = nearest_by_meaning(" ".join(words), MEANT) or []
    only = set(keys) if query.only is None else set(keys) & set(query.only)
    required = [term for term in query.terms if term not in free and not term.exclude]
    if only:
        beside = replace(query, terms=tuple(required), only=tuple(only))
        only = set(index.matches(beside, len(only)))
    for term in query.terms:
        if only and term.exclude:
            unwanted = Query((replace(term, exclude=False),), only=tuple(only))
            only -= set(index.matches(unwanted, len(only)))
    return [key for key in keys if key in only]


def _fused(*rankings: Sequence[int]) -> list[int]:
    """Join rankings by reciprocal rank (Cormack, Clarke and Buettcher, SIGIR 2009)."""
    points: dict[int, float] = defaultdict(float)
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            points[key] += 1 / (RRF + place)
    return sorted(points, key=lambda key: -points[key])


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
    """True if the query asks for something that it does not also exclude."""
    included = {term for term in query.terms if not term.exclude}
    excluded = {replace(term, exclude=False) for term in query.terms if term.exclude}
    named = query.only is not None or any(not named.exclude for named in query.named)
    narrowed = bool(named or query.since or query.until) and not excluded
    return (bool(included) or narrowed) and not included & excluded


def _is_rankable(term: QueryTerm) -> bool:
    return not term.exclude and term.column != "categories"


def _is_free(term: QueryTerm) -> bool:
    """True if a term is plain words: no phrase, no field, no alternatives."""
    return _is_rankable(term) and not (term.quoted or term.column or term.others)


def _resolved(query: Query, reader: User | None) -> Query:
    """Return the query with the keys of the papers that its fields and authors allow and exclude.

    Raises QueryError.
    """
    parts = [(_papers_of(named, reader), named.exclude) for named in query.named]
    names = []
    for term in query.terms:
        ways = (term, *term.others)
        if any(way.name for way in ways):
            keys = set[int]().union(*map(papers_by, ways))
            if keys or any(" " in way.name for way in ways):  # else a word that may be mistyped
                names.append(term)
                parts.append((keys, term.exclude))
    included = [keys for keys, exclude in parts if not exclude]
    excluded = set[int]().union(*(keys for keys, exclude in parts if exclude))
    only = tuple(set.intersection(*included)) if included else None
    terms = tuple(term for term in query.terms if term not in names)
    return replace(query, terms=terms, only=only, without=tuple(excluded))


def _papers_of(named: NamedField, reader: User | None) -> set[int]:
    """The papers of a named field and of its alternatives. Raises QueryError."""
    each = (filters[way.field](way.value, reader) for way in (named, *named.others))
    return set[int]().union(*each)


def _relaxed(query: Query) -> tuple[Query, tuple[str, ...]]:
    """The query with phrases as words, without words that no paper contains, and these words.

    The query itself if no other words remain.
    """
    terms: list[QueryTerm] = []
    dropped: list[str] = []
    for term in query.terms:
        if not _is_rankable(term) or term.others:
            terms.append(term)
            continue
        for word in term.words:
            single = QueryTerm((word,), term.column, term.prefix and word == term.words[-1])
            if index.matches(Query((single,)), 1):
                terms.append(single)
            else:
                dropped.append(word)
    relaxed = replace(query, terms=tuple(dict.fromkeys(terms)))
    is_rankable = any(_is_rankable(term) for term in terms)
    return relaxed if is_rankable and _answerable(relaxed) else query, tuple(dropped)


def _by_identifier(text: str) -> Paper | None:
    with suppress(ValueError):
        return Paper.objects.filter(arxiv_id=parse_identifier(text)[0]).first()
    return None

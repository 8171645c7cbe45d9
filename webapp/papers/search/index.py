"""The database's full-text index: candidates for a query, by day announced, the latest first.

The first migration of papers builds it: FTS5 on SQLite, tsvectors that are generated, with GIN, on
PostgreSQL. No index ranks every match of a common word fast enough for a page, so each search here
is bounded: the latest papers with the terms in the title, and the latest with them anywhere.
`ranking` orders these.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

from django.db import OperationalError, connection, transaction
from django.db.models import F, Max

from webapp.papers.models import Paper
from webapp.papers.queries import rows
from webapp.papers.search.query import Query, QueryTerm

log = logging.getLogger(__name__)

SECONDS = 2  # of one PostgreSQL search; after that the answer is what was found until then
# PostgreSQL searches the latest blocks of days first, and more only if these have too few matches:
# it reads each paper that its index finds, which for a common word may be all of them. The index
# has the blocks of each paper as words (migration 0001). Days of a block, and how many of these.
WINDOWS = tuple((days, count) for days in (8, 32, 128, 512, 2048) for count in (2, 4))
MARGIN = 1.2  # more papers than needed that a window should have at the rate of those before
READ = 2_000  # the latest papers with all words of a phrase, in which PostgreSQL looks for it
_KEY = 0xFFFFFFFF  # mask for a row number of SQLite's index: the paper's key


def matches(query: Query, limit: int) -> list[int]:
    """Keys of at most `limit` papers with every term, by day announced, the latest first.

    `query.named` must be resolved.
    """
    if all(term.exclude for term in query.terms):
        return _listed(query, limit)
    if connection.vendor == "postgresql":
        return _postgresql(query, limit)
    return _sqlite(_fts(query.terms), query, limit)


def having_any(sets: Sequence[Sequence[QueryTerm]], query: Query, limit: int) -> list[int]:
    """Keys of at most `limit` papers with all terms of any of `sets`, and with those of `query`.

    By day announced, the latest first.
    """
    if connection.vendor == "postgresql":
        ways = [" & ".join(f"({_ts_term(term, '<->')})" for term in terms) for terms in sets]
        sought = _tsqueries(query.terms, "<->")
        here = " | ".join(f"({way})" for way in ways)
        beside = sought.get("paper.search")
        sought["paper.search"] = f"({here}) & {beside}" if beside else here
        return _in_windows(sought, query, limit)
    alternatives = " OR ".join(_fts(terms) for terms in sets)
    beside = _fts_beside(query.terms)
    return _sqlite(
        f"({alternatives}){beside}", replace(query, terms=(*query.terms, *sets[0])), limit
    )


def _keys(statement: str, values: Sequence[object]) -> list[int]:
    return [key for (key,) in rows(statement, values)]


def _listed(query: Query, limit: int) -> list[int]:
    """The latest papers, whatever their text."""
    # Papers without a day come last; a range of days has none, and an index has its order.
    has_days = bool(query.since or query.until)
    papers = Paper.objects.order_by(F("announced_on").desc(nulls_last=not has_days or None), "-pk")
    papers = papers.filter(announced_on__gte=query.since) if query.since else papers
    papers = papers.filter(announced_on__lte=query.until) if query.until else papers
    papers = papers if query.only is None else papers.filter(pk__in=query.only)
    papers = papers.exclude(pk__in=query.without) if query.without else papers
    return list(papers.values_list("pk", flat=True)[:limit])


def _sqlite(sought: str, query: Query, limit: int) -> list[int]:
    """Matches of an FTS5 expression; row numbers are in the order of days.

    The table without abstracts is faster where no term may be in one.
    """
    everywhere = any(term.column in {"", "abstract"} for term in query.terms)
    table = "papers_search" if everywhere else "papers_titles"
    clauses, values = [f"{table} MATCH %s"], list[object]([sought])
    if query.since or query.until:
        clauses.append("rowid >= CAST(julianday(%s) AS INTEGER) << 32")
        values.append((query.since or date.min).isoformat())
    if query.until:
        clauses.append(f"rowid <= CAST(julianday(%s) AS INTEGER) << 32 | {_KEY}")
        values.append(query.until.isoformat())
    if query.only is not None:
        clauses.append(f"rowid & {_KEY} IN ({', '.join(map(str, query.only))})")
    if query.without:
        clauses.append(f"rowid & {_KEY} NOT IN ({', '.join(map(str, query.without))})")
    narrowed = " AND ".join(clauses)
    statement = "SELECT rowid & {} FROM {} WHERE {} ORDER BY rowid DESC LIMIT %s"
    return _keys(statement.format(_KEY, table, narrowed), [*values, limit])


def _fts(terms: Sequence[QueryTerm]) -> str:
    """The terms as an FTS5 expression; words are letters and digits only, so quoting is safe."""
    included = " AND ".join(_fts_term(term) for term in terms if not term.exclude)
    return f"({included}){_fts_beside([term for term in terms if term.exclude])}"


def _fts_beside(terms: Sequence[QueryTerm]) -> str:
    """Return the expression for terms that continues another expression."""
    included = "".join(f" AND {_fts_term(term)}" for term in terms if not term.exclude)
    return included + "".join(f" NOT {_fts_term(term)}" for term in terms if term.exclude)


def _fts_term(term: QueryTerm) -> str:
    column = f"{{{term.column or 'title abstract authors'}}} : "
    ways = [f'"{" ".join(words)}"{" *" if begun else ""}' for words, begun in term.ways()]
    return f"{column}({' OR '.join(ways)})" if len(ways) > 1 else f"{column}{ways[0]}"


def _postgresql(query: Query, limit: int) -> list[int]:
    """PostgreSQL's matches. It checks phrases in the papers: the GIN index has no positions."""
    sought = _tsqueries(query.terms, "<->")
    # Titles are short: only phrases in whole papers are worth a second query.
    if not any(
        term.column != "title" and not term.exclude and any(words[1:] for words, _ in term.ways())
        for term in query.terms
    ):
        return _in_windows(sought, query, limit)
    held = _tsqueries([term for term in query.terms if not (term.exclude and term.words[1:])], "&")
    read = _in_windows(held, query, max(READ, limit))
    statement = _FOUND.format(f"{_holding(sought)} AND paper.id = ANY(%s)")
    return _keys(statement, [*sought.values(), read, limit])


_FOUND = """
    SELECT paper.id FROM papers_paper AS paper WHERE {}
    ORDER BY paper.announced_on DESC NULLS LAST, paper.id DESC LIMIT %s
"""
_COLUMN = {"title": "search_titles", "authors": "search_authors"}  # else "search"


def _in_windows(sought: Mapping[str, str], query: Query, limit: int) -> list[int]:
    """The papers that match `sought` (tsqueries by column): of the latest days, then of more."""
    clauses, values = list[str](), list[object](sought.values())
    for sign, day in ((">=", query.since), ("<=", query.until)):
        if day is not None:
            clauses.append(f"paper.announced_on + 0 {sign} %s")  # + 0: not by an index of days
            values.append(day)
    if query.only is not None:
        clauses.append("paper.id = ANY(%s)")
        values.append(list(query.only))
    if query.without:
        clauses.append("paper.id != ALL(%s)")
        values.append(list(query.without))
    keys: list[int] = []
    looked = 0.0  # days
    has_prefix = any(":*" in tsquery for tsquery in sought.values())
    is_nested = connection.in_atomic_block  # then the settings would outlast this search
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_CAREFULLY.format(f"'{SECONDS}s'", "off", "off", 0, "'64MB'"))
            # For a single match: a word that the last days lack is rare, so skip to all days.
            windows = WINDOWS if limit > 1 else WINDOWS[:1]
            if "paper.search" not in sought:  # days are in that index only: reading many takes long
                windows = tuple(size for size in windows if size[0] <= 128)
            for days, window in _windows(query.since, query.until, windows):
                # At the rate of matches so far, fewer days would not have enough.
                if max(len(keys), 1) * days < MARGIN * limit * looked:
                    continue
                # The index would collect every paper with a common beginning, of whatever day.
                is_common = has_prefix and (not looked or (days <= 64 and 2 * len(keys) > limit))
                matching = _holding(sought, by_index=not is_common)
                condition = " AND ".join([*window, matching, *clauses])
                keys, looked = _keys(_FOUND.format(condition), [*values, limit]), days
                if len(keys) >= limit:
                    break
            if is_nested:
                cursor.execute(_CAREFULLY.format(*["DEFAULT"] * 5))
    except OperationalError as error:
        log.warning("A search was stopped after %d s: %s", SECONDS, error)
    return keys


# Use the index of words, and nothing whose start takes longer than most searches. The places of a
# million papers fit into 16 MB; with less memory each found paper's text would be read once more.
_CAREFULLY = """
    SET LOCAL statement_timeout = {}; SET LOCAL enable_seqscan = {}; SET LOCAL jit = {};
    SET LOCAL max_parallel_workers_per_gather = {}; SET LOCAL work_mem = {}
"""


def _windows(
    since: date | None, until: date | None, windows: Sequence[tuple[int, int]]
) -> Iterator[tuple[float, list[str]]]:
    """Numbers of days with the conditions for papers of the last ones: few, then more, then all.

    The last window, of infinitely many days, goes back to `since` at least.
    """
    latest = Paper.objects.aggregate(day=Max("announced_on"))["day"] or date.min
    end = (min(latest, until or latest) - date.min).days
    for days, count in windows:
        blocks = range(end // days + 1 - count, end // days + 1)
        lexemes = " | ".join(f"zqdays{days}n{block}" for block in blocks)
        begin = blocks[0] * days
        is_last = since is not None and (since - date.min).days >= begin
        condition = f"paper.search @@ to_tsquery('english', '{lexemes}')"
        yield math.inf if is_last else end + 1 - begin, [condition]
        if is_last:
            return
    yield math.inf, []


def _holding(sought: Mapping[str, str], *, by_index: bool = True) -> str:
    """The condition that all of `sought` match; its parameters are the values of `sought`.

    PostgreSQL uses an index for the operator @@ alone, not for the function behind it.
    """
    form = "{} {} @@ {}" if by_index else "{} ts_match_vq({}, {})"
    places = (place.rpartition(" ") for place in sought)
    return " AND ".join(
        form.format(no, alias, "to_tsquery('english', %s)") for no, _, alias in places
    )


def _tsqueries(terms: Sequence[QueryTerm], together: str) -> dict[str, str]:
    """The terms as tsqueries by column; see `_fts`.

    `together` is the operator between the words of a phrase. A column with only excluded terms is
    checked in the papers, since a negated tsquery alone would walk the whole index.
    """
    queries: dict[str, str] = {}
    for column in dict.fromkeys(_COLUMN.get(term.column, "search") for term in terms):
        here = [term for term in terms if _COLUMN.get(term.column, "search") == column]
        ways = [(term.exclude, f"({_ts_term(term, together)})") for term in here]
        if column == "search" and all(exclude for exclude, _ in ways):  # it has all other columns
            ways += [(False, f"({_ts_term(term, '&')})") for term in terms if not term.exclude]
        if all(exclude for exclude, _ in ways):
            queries[f"NOT paper.{column}"] = " | ".join(way for _, way in ways)
        else:
            queries[f"paper.{column}"] = " & ".join("!" * no + way for no, way in ways)
    return queries


def _ts_term(term: QueryTerm, together: str) -> str:
    if term.column == "categories":
        return " | ".join(f"zqcategory{words[0]}" for words, _ in term.ways())
    label = "C" if term.column == "abstract" else ""
    ways = []
    for (*words, last), begun in term.ways():
        ending = f"'{last}':{'*' if begun else ''}{label}"
        ways.append(f" {together} ".join([*(f"'{word}':{label}" for word in words), ending]))
    return " | ".join(f"({way})" for way in ways)

"""The database's full-text index: candidates for a query, by day announced, the latest first.

`migrations/0001_tables` builds it: FTS5 on SQLite, tsvectors that are generated, with GIN, on
PostgreSQL. No index ranks every match of a common word within the time a page has, so each look
here is bounded: the latest papers that hold the terms in the title, and the latest that hold them
anywhere. Ranking (`ranking`) is over these.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import combinations

from django.db import OperationalError, connection, transaction
from django.db.models import F, Max

from webapp.papers.models import Paper
from webapp.papers.queries import rows
from webapp.papers.search.query import Query, Term

log = logging.getLogger(__name__)

SECONDS = 2  # after which PostgreSQL gives up a look; what was found until then is the answer
# PostgreSQL looks at the latest blocks of so many days first, and at more only where too few papers
# were found there: it has to read each paper that its index finds, and of a common word that may be
# all. The index holds each paper's blocks as words (migration 0001).
BLOCKS = (8, 32, 128, 512, 2048)
# Of papers that hold all words of a phrase, the latest that PostgreSQL reads to see whether they
# stand together there.
READ = 2_000
_KEY = 0xFFFFFFFF  # of a row of SQLite's index, the part that is the paper's key


def matches(query: Query, limit: int, allowed: Sequence[int] | None = None) -> list[int]:
    """Keys of at most `limit` papers that hold every term, by day announced, the latest first.

    What the query names of other rooms is not looked at: `allowed`, if given, are the only keys
    that count.
    """
    if all(term.exclude for term in query.terms):
        return _listed(query, limit, allowed)
    if connection.vendor == "postgresql":
        return _postgresql(query, limit, allowed)
    return _sqlite(_fts(query.terms), query, limit, allowed)


def sharing(words: Sequence[str], phrases: Sequence[str], limit: int) -> list[int]:
    """Keys of the latest papers whose title or abstract hold two of `words`, or one of `phrases`.

    Words hold letters and digits only; those of a phrase are divided by blanks.
    """
    terms = [[Term((one,)), Term((other,))] for one, other in combinations(words, 2)]
    terms += [[Term(tuple(phrase.split()))] for phrase in phrases]
    if not terms:
        return []
    if connection.vendor == "postgresql":
        ways = [_tsqueries(one, "<->")["paper.search"] for one in terms]
        sought = {"paper.search": " | ".join(f"({way})" for way in ways)}
        return _in_windows(sought, Query(), limit)
    return _sqlite(" OR ".join(_fts(one) for one in terms), Query(tuple(terms[0])), limit)


def _keys(statement: str, values: Sequence[object]) -> list[int]:
    return [key for (key,) in rows(statement, values)]


def _listed(query: Query, limit: int, allowed: Sequence[int] | None) -> list[int]:
    """The latest papers, whatever they hold."""
    # Papers without a day come last; between days there are none, and an index has the order.
    has_days = bool(query.since or query.until)
    papers = Paper.objects.order_by(F("announced_on").desc(nulls_last=not has_days or None), "-pk")
    papers = papers.filter(announced_on__gte=query.since) if query.since else papers
    papers = papers.filter(announced_on__lte=query.until) if query.until else papers
    papers = papers if allowed is None else papers.filter(pk__in=allowed)
    return list(papers.values_list("pk", flat=True)[:limit])


def _sqlite(
    sought: str, query: Query, limit: int, allowed: Sequence[int] | None = None
) -> list[int]:
    """The rows of an FTS5 table, whose numbers are in the order of days.

    The smaller one, where no term may stand in the abstract.
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
    if allowed is not None:
        clauses.append(f"rowid & {_KEY} IN ({', '.join(map(str, allowed))})")
    narrowed = " AND ".join(clauses)
    statement = "SELECT rowid & {} FROM {} WHERE {} ORDER BY rowid DESC LIMIT %s"
    return _keys(statement.format(_KEY, table, narrowed), [*values, limit])


def _fts(terms: Sequence[Term]) -> str:
    """The terms as an FTS5 expression; words hold letters and digits only, so quotes hold them."""
    wanted = " AND ".join(_fts_term(term) for term in terms if not term.exclude)
    unwanted = "".join(f" NOT {_fts_term(term)}" for term in terms if term.exclude)
    return f"({wanted}){unwanted}"


def _fts_term(term: Term) -> str:
    column = f"{{{term.column or 'title abstract authors'}}} : "
    ways = [f'"{" ".join(words)}"{" *" if term.prefix else ""}' for words in term.spellings()]
    return f"{column}({' OR '.join(ways)})" if len(ways) > 1 else f"{column}{ways[0]}"


def _postgresql(query: Query, limit: int, allowed: Sequence[int] | None) -> list[int]:
    """PostgreSQL's answer. Whether words stand together only the papers that hold them all tell."""
    sought = _tsqueries(query.terms, "<->")
    if not any(term.words[1:] and not term.exclude for term in query.terms):
        return _in_windows(sought, query, limit, allowed)
    held = _tsqueries([one for one in query.terms if not (one.exclude and one.words[1:])], "&")
    read = _in_windows(held, query, max(READ, limit), allowed)
    return _keys(_FOUND.format(_holding(sought)), [*sought.values(), read, limit])


_FOUND = """
    SELECT paper.id FROM papers_paper AS paper WHERE {} AND paper.id = ANY(%s)
    ORDER BY paper.announced_on DESC NULLS LAST, paper.id DESC LIMIT %s
"""
_COLUMN = {"title": "search_titles", "authors": "search_authors"}  # else "search"


def _in_windows(
    sought: Mapping[str, str], query: Query, limit: int, allowed: Sequence[int] | None = None
) -> list[int]:
    """The papers that hold what is sought in the columns: of the latest days, then of more."""
    clauses, values = [_holding(sought)], list[object](sought.values())
    for sign, day in ((">=", query.since), ("<=", query.until)):
        if day is not None:
            clauses.append(f"paper.announced_on + 0 {sign} %s")  # by no index but the words'
            values.append(day)
    statement = _FOUND if allowed is not None else _FOUND.replace("AND paper.id = ANY(%s)", "")
    values += [] if allowed is None else [list(allowed)]
    keys: list[int] = []
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_CAREFULLY.format(f"'{SECONDS}s'", "off", "off", 0))
            # Whether there is any needs no order: a word that the last days lack is rare.
            blocks = BLOCKS if limit > 1 else BLOCKS[:1]
            for window in _windows(query.since, query.until, blocks):
                keys = _keys(statement.format(" AND ".join([*window, *clauses])), [*values, limit])
                if len(keys) >= limit:
                    break
            cursor.execute(_CAREFULLY.format(*["DEFAULT"] * 4))
    except OperationalError as error:
        log.warning("A search was given up after %d s: %s", SECONDS, error)
    return keys


# The words' index, and nothing begun that takes longer than most searches.
_CAREFULLY = """
    SET LOCAL statement_timeout = {}; SET LOCAL enable_seqscan = {}; SET LOCAL jit = {};
    SET LOCAL max_parallel_workers_per_gather = {}
"""


def _windows(since: date | None, until: date | None, blocks: Sequence[int]) -> Iterator[list[str]]:
    """Conditions that hold for papers of the last days, then for those of ever more, then of all.

    Where `since` bounds the days, no further back.
    """
    latest = Paper.objects.aggregate(day=Max("announced_on"))["day"] or date.min
    end = (min(latest, until or latest) - date.min).days
    for days in blocks:
        last = end // days
        words = f"zqdays{days}n{last - 1} | zqdays{days}n{last}"
        yield [f"paper.search @@ to_tsquery('english', '{words}')"]
        if since is not None and (since - date.min).days >= (last - 1) * days:
            return
    yield []


def _holding(sought: Mapping[str, str]) -> str:
    """The condition of holding what is sought; its values are that of `sought`."""
    return " AND ".join(f"{place} @@ to_tsquery('english', %s)" for place in sought)


def _tsqueries(terms: Sequence[Term], together: str) -> dict[str, str]:
    """Of each column that is asked, the terms as a tsquery; see `_fts`.

    `together` divides the words of a phrase. Where a column has none but excluded terms, the papers
    are asked: the index would walk all it has for those without a word.
    """
    queries: dict[str, str] = {}
    for column in dict.fromkeys(_COLUMN.get(term.column, "search") for term in terms):
        here = [one for one in terms if _COLUMN.get(one.column, "search") == column]
        ways = [(one.exclude, f"({_ts_term(one, together)})") for one in here]
        if all(exclude for exclude, _ in ways):
            queries[f"NOT paper.{column}"] = " | ".join(way for _, way in ways)
        else:
            queries[f"paper.{column}"] = " & ".join("!" * no + way for no, way in ways)
    return queries


def _ts_term(term: Term, together: str) -> str:
    if term.column == "categories":
        return f"zqcategory{term.words[0]}"
    label = "C" if term.column == "abstract" else ""
    ways = []
    for *words, last in term.spellings():
        ending = f"'{last}':{'*' if term.prefix else ''}{label}"
        ways.append(f" {together} ".join([*(f"'{word}':{label}" for word in words), ending]))
    return " | ".join(f"({way})" for way in ways)

"""The database's full-text index: candidates for a query, by day announced, the latest first.

`migrations/0001_tables` builds it: FTS5 on SQLite, a generated tsvector with GIN on PostgreSQL. No
index ranks every match of a common word within the time a page has, so each look here is bounded:
the latest papers that hold the terms in the title, and the latest that hold them anywhere. Ranking
(`ranking`) is over these.
"""

import logging
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import combinations

from django.db import OperationalError, connection, transaction
from django.db.models import F, Max, Min

from webapp.papers.models import Paper
from webapp.papers.queries import rows
from webapp.papers.search.query import Term

log = logging.getLogger(__name__)

SECONDS = 2  # after which PostgreSQL gives up a look; what was found until then is the answer
# PostgreSQL looks at the latest days first, and at more only where too few papers were found there:
# it has to read each paper that its index finds, and of a common word that may be all.
WINDOWS = (4, 32, 256, 2048)  # days
WALKED = 4  # for each paper wanted, matches that SQLite puts in the order of days
_WEIGHT = {"title": "A", "authors": "B", "abstract": "C", "categories": "D"}
_ANYWHERE = "ABC"


def matches(
    terms: Sequence[Term],
    since: date | None,
    until: date | None,
    limit: int,
    allowed: Sequence[int] | None = None,
) -> list[int]:
    """Keys of at most `limit` papers that hold every term, by day announced, the latest first.

    `since` and `until` bound the day announced, both ends included; `allowed`, if given, names the
    only keys that count. On SQLite, where more than `WALKED` times as many match, those that were
    stored last.
    """
    clauses: list[str] = ["TRUE"]
    values: list[int | str] = []
    if allowed is not None:
        clauses.append(f"paper.id IN ({', '.join(['%s'] * len(allowed)) or 'NULL'})")
        values.extend(allowed)
    if until is not None:
        clauses.append("paper.announced_on <= %s")
        values.append(until.isoformat())
    has_terms = any(not term.exclude for term in terms)
    if has_terms and connection.vendor == "postgresql":
        clauses.append("paper.search @@ to_tsquery('english', %s)")
        return _in_windows(" AND ".join(clauses), [*values, _tsquery(terms)], since, limit)
    if since is not None:
        clauses.append("paper.announced_on >= %s")
        values.append(since.isoformat())
    narrowed = " AND ".join(clauses)
    if not has_terms:
        order = "" if since or until else "paper.announced_on IS NULL, "
        return _keys(_LISTED.format(narrowed, order), [*values, limit])
    span = _key_range(since, until)
    if span is None:
        return []
    table = "papers_search AS found CROSS JOIN papers_paper AS paper ON paper.id = found.rowid"
    statement = _SQLITE.format(table if len(clauses) > 1 else "papers_search AS found", narrowed)
    return _keys(statement, [_fts(terms), *span, *values, WALKED * limit, limit])


def sharing(words: Sequence[str], phrases: Sequence[str], limit: int) -> list[int]:
    """Keys of the latest papers whose title or abstract hold two of `words`, or one of `phrases`.

    Words hold letters and digits only; those of a phrase are divided by blanks.
    """
    terms = [[Term((one,)), Term((other,))] for one, other in combinations(words, 2)]
    terms += [[Term(tuple(phrase.split()))] for phrase in phrases]
    if not terms:
        return []
    if connection.vendor == "postgresql":
        sought = " | ".join(f"({_tsquery(one)})" for one in terms)
        return _in_windows("paper.search @@ to_tsquery('english', %s)", [sought], None, limit)
    sought = " OR ".join(_fts(one) for one in terms)
    statement = _SQLITE.format("papers_search AS found", "TRUE")
    return _keys(statement, [sought, 0, 2**62, WALKED * limit, limit])


def _keys(statement: str, values: Sequence[int | str]) -> list[int]:
    return [key for (key,) in rows(statement, values)]


_LISTED = """
    SELECT paper.id FROM papers_paper AS paper WHERE {}
    ORDER BY {} paper.announced_on DESC, paper.id DESC LIMIT %s
"""
_SQLITE = """
    SELECT latest.id FROM (
        SELECT found.rowid AS id FROM {} WHERE papers_search MATCH %s
        AND found.rowid BETWEEN %s AND %s AND {} ORDER BY found.rowid DESC LIMIT %s
    ) AS latest CROSS JOIN papers_paper AS paper ON paper.id = latest.id
    ORDER BY paper.announced_on DESC, paper.id DESC LIMIT %s
"""


def _in_windows(
    narrowed: str, values: Sequence[int | str], since: date | None, limit: int
) -> list[int]:
    """PostgreSQL's answer: from the latest days, then from more of them until there are enough."""
    latest = Paper.objects.aggregate(day=Max("announced_on"))["day"] or date.min
    starts = [latest - timedelta(days) for days in WINDOWS if latest > date.min]
    keys: list[int] = []
    for start in [*(day for day in starts if since is None or day > since), since]:
        window = "TRUE" if start is None else f"paper.announced_on >= '{start.isoformat()}'"
        # An order by no index: candidates come from the text's index, not from a walk by days.
        statement = _LISTED.format(f"{narrowed} AND {window}", "paper.announced_on IS NULL,")
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = '{SECONDS}s'")
                keys = _keys(statement, [*values, limit])
                cursor.execute("SET LOCAL statement_timeout = DEFAULT")
        except OperationalError as error:
            log.warning("A search was given up after %d s: %s", SECONDS, error)
            return keys
        if len(keys) >= limit:
            break
    return keys


def _key_range(since: date | None, until: date | None) -> tuple[int, int] | None:
    """The first and last key announced within the days: bounds the walk over a common word."""
    if since is None and until is None:
        return 0, 2**62
    papers = Paper.objects.all()
    papers = papers.filter(announced_on__gte=since) if since else papers
    papers = papers.filter(announced_on__lte=until) if until else papers
    # "+ 0": else SQLite walks the papers by key until one fits, which is nearly all.
    ends = papers.aggregate(first=Min(F("pk") + 0), last=Max(F("pk") + 0))
    return None if ends["first"] is None else (ends["first"], ends["last"])


def _fts(terms: Sequence[Term]) -> str:
    """The terms as an FTS5 expression; words hold letters and digits only, so quotes hold them."""
    wanted = " AND ".join(_fts_term(term) for term in terms if not term.exclude)
    unwanted = "".join(f" NOT {_fts_term(term)}" for term in terms if term.exclude)
    return f"({wanted}){unwanted}"


def _fts_term(term: Term) -> str:
    column = f"{{{term.column or 'title abstract authors'}}} : "
    ways = [f'"{" ".join(words)}"{" *" if term.prefix else ""}' for words in term.spellings()]
    return f"{column}({' OR '.join(ways)})" if len(ways) > 1 else f"{column}{ways[0]}"


def _tsquery(terms: Sequence[Term]) -> str:
    """The terms as a tsquery; see `_fts`."""
    return " & ".join(f"{'!' if term.exclude else ''}({_ts_term(term)})" for term in terms)


def _ts_term(term: Term) -> str:
    label = _WEIGHT.get(term.column, _ANYWHERE)
    ways = []
    for *words, last in term.spellings():
        ending = f"'{last}':{'*' if term.prefix else ''}{label}"
        ways.append(" <-> ".join([*(f"'{word}':{label}" for word in words), ending]))
    return " | ".join(f"({way})" for way in ways)

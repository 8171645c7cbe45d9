"""The database's full-text index: candidates for a query, the latest first.

`migrations/0003` builds it: FTS5 on SQLite, a generated tsvector with GIN on PostgreSQL. No index
ranks every match of a common word within the time a page has, so each look here is bounded: the
latest papers that hold the terms in the title, and the latest that hold them anywhere. Ranking
(`ranking`) is over these.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import combinations

from django.db import connection
from django.db.models import F, Max, Min

from webapp.papers.models import Paper
from webapp.papers.search.query import Term

_WEIGHT = {"title": "A", "authors": "B", "abstract": "C", "categories": "D"}
_ANYWHERE = "ABC"


def matches(
    terms: Sequence[Term],
    since: date | None,
    until: date | None,
    limit: int,
    allowed: Sequence[int] | None = None,
) -> list[int]:
    """Keys of at most `limit` papers that hold every term, the latest first.

    `since` and `until` bound the day announced, both ends included; `allowed`, if given, names the
    only keys that count.
    """
    span = _key_range(since, until)
    if span is None:
        return []
    clauses: list[str] = ["paper.id BETWEEN %s AND %s"]
    values: list[int | str] = [*span]
    if since is not None:
        clauses.append("paper.announced_on >= %s")
        values.append(since.isoformat())
    if until is not None:
        clauses.append("paper.announced_on <= %s")
        values.append(until.isoformat())
    if allowed is not None:
        clauses.append(f"paper.id IN ({', '.join(['%s'] * len(allowed)) or 'NULL'})")
        values.extend(allowed)
    if not any(not term.exclude for term in terms):
        return _keys(_LISTED.format(" AND ".join(clauses)), [*values, limit])
    if connection.vendor == "postgresql":
        return _keys(_POSTGRESQL.format(" AND ".join(clauses)), [_tsquery(terms), *values, limit])
    table = "papers_search AS found CROSS JOIN papers_paper AS paper ON paper.id = found.rowid"
    if len(clauses) == 1:  # the index alone answers
        table, clauses = "papers_search AS found", ["found.rowid BETWEEN %s AND %s"]
    statement = _SQLITE.format(table, " AND ".join(clauses))
    return _keys(statement, [_fts(terms), *values, limit])


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
        return _keys(_POSTGRESQL.format("TRUE"), [sought, limit])
    sought = " OR ".join(_fts(one) for one in terms)
    return _keys(_SQLITE.format("papers_search AS found", "TRUE"), [sought, limit])


def _keys(statement: str, values: list[int | str]) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return [row[0] for row in cursor.fetchall()]


_LISTED = "SELECT paper.id FROM papers_paper AS paper WHERE {} ORDER BY paper.id DESC LIMIT %s"
_SQLITE = """
    SELECT found.rowid FROM {} WHERE papers_search MATCH %s AND {}
    ORDER BY found.rowid DESC LIMIT %s
"""
_POSTGRESQL = """
    SELECT paper.id FROM papers_paper AS paper
    WHERE paper.search @@ to_tsquery('english', %s) AND {}
    ORDER BY paper.id DESC LIMIT %s
"""


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
    for words in term.spellings():
        last = len(words) - 1
        ways.append(
            " <-> ".join(
                f"'{word}':{'*' if term.prefix and at == last else ''}{label}"
                for at, word in enumerate(words)
            )
        )
    return " | ".join(f"({way})" for way in ways)

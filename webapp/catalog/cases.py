"""Corrections as test cases: the results that the rules should give without them."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lxml.etree import ParserError, tostring

from methods import registry
from webapp.catalog import evidence, mechanisms
from webapp.claims.corrections import Kind, corrected_quotes
from webapp.claims.extraction.quotes import quotes
from webapp.claims.models import Correction, PaperTable, TableReading
from webapp.claims.tables.cells import cells_by_name, renamed, without_table
from webapp.claims.tables.grid import grids_of
from webapp.claims.tables.reading import Table
from webapp.claims.tables.shown import ShownTable, main_of, shown_tables
from webapp.claims.tables.store import tables_of_html
from webapp.papers import fetch
from webapp.papers.fetch import FetchError
from webapp.papers.latexml import parse
from webapp.summaries import fulltext
from webapp.summaries.models import FullText

log = logging.getLogger(__name__)
Case = dict[str, Any]


def cases() -> Iterator[Case]:
    """Yield each effective correction with the result of the rules, as JSON values.

    A claim comes from a model; the tests of grounding judge whether a rule marks it. The HTML of a
    corrected cell's table is fetched from arXiv; without it there is no case.
    """
    rows = Correction.objects.filter(undone_at=None).exclude(kind=Kind.CLAIM)
    last = {
        (row.paper_id, row.kind, row.subject): row
        for row in rows.select_related("paper").order_by("pk")
    }
    for row in last.values():
        paper = row.paper
        case: Case = {
            "id": paper.arxiv_id,
            "kind": row.kind,
            "subject": row.subject,
            "value": row.value,
            "title": paper.title,
            "abstract": paper.abstract,
            "comment": paper.comment,
        }
        if row.kind in {Kind.ROW, Kind.MAIN}:
            reading = TableReading.objects.filter(paper=paper).order_by("-version").first()
            fields = ("position", "number", "caption", "anchor", "cells")
            case["tables"] = list(reading.tables.values(*fields)) if reading else []
        if row.kind == Kind.CELL:
            try:
                body = fetch.get(fulltext.address(paper, FullText.Source.HTML)).body
                case["html"] = _figure(body, row.subject)
            except (FetchError, ParserError, ValueError) as error:
                log.warning("No case of a cell of %s: %s", paper.arxiv_id, error)
                continue
        yield case


def disagreement(case: Case) -> str:
    """Return the result of the rules if it differs from a correction, or ""."""
    checks: dict[str, Callable[[Case, str, Any], str]] = {
        Kind.QUOTE: _of_quote,
        Kind.ROW: _of_row,
        Kind.MAIN: _of_main,
        Kind.CELL: _of_cell,
        Kind.LINK: _of_link,
    }
    return checks[case["kind"]](case, case["subject"], case["value"])


def _of_quote(case: Case, subject: str, value: str | None) -> str:
    computed = [quote.text for quote in quotes(case["abstract"])]
    expected = corrected_quotes(case["abstract"], {subject: value})
    is_gone = subject not in computed or subject == value  # or one that the rules missed
    is_right = is_gone and (value is None or value in computed)
    return "" if is_right else f"{computed} instead of {[quote.text for quote in expected]}"


def _of_row(case: Case, subject: str, value: str | None) -> str:
    labels = [table.own_label for table in _tables(case) if table.key == subject]
    return "" if (value or "") in labels else f"{labels} instead of {value}"


def _of_main(case: Case, subject: str, value: bool | None) -> str:
    main = main_of(_tables(case))
    is_main = main is not None and main.key == subject
    return "" if is_main == bool(value) else f"the main table is {main and main.key}"


def _of_cell(case: Case, subject: str, value: str | None) -> str:
    tables = tables_of_html(case["html"].encode())
    cells = {without_table(name) for table in tables for name in cells_by_name("", table)}
    is_gone = without_table(subject) not in cells
    is_right = value is None or without_table(renamed(subject, value)) in cells
    return "" if is_gone and is_right else f"{subject!r} instead of {value!r}"


def _figure(body: bytes, subject: str) -> str:
    """Return the HTML of the table with a corrected cell. Raises ParserError or ValueError."""
    for position, (tabular, grid) in enumerate(grids_of(parse(body)), start=1):
        if subject in cells_by_name(grid.number or f"#{position}", Table(grid)):
            figures = list(tabular.iterancestors("figure"))
            outermost = figures[-1] if figures else tabular
            return str(tostring(outermost, encoding="unicode", with_tail=False))
    raise ValueError("its HTML no longer has the cell")


def _of_link(case: Case, subject: str, value: Mapping[str, str | None] | None) -> str:
    text = f"{case['abstract']}\n{case['comment']}".strip()
    links = evidence.links(case["id"], case["title"], text)
    about = {link.method for link in links if link.relation in {"about", "source"}}
    if (subject in about) != (value is not None):
        return f"about {sorted(about)}"
    if value is None or value["mechanism"] is None:
        return ""
    method = registry.get(subject)
    mechanism = method.proposed_by(case["id"]) or mechanisms.named(
        method, case["title"], case["abstract"]
    )
    slug = mechanism.slug if mechanism else ""
    return "" if slug == value["mechanism"] else f"{slug} instead of {value['mechanism']}"


def _tables(case: Case) -> list[ShownTable]:
    stored = [PaperTable(**fields) for fields in case["tables"]]
    return shown_tables(case["title"], case["abstract"], stored)

"""Corrections as test cases: the results that the rules should give without them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from methods import registry
from webapp.catalog import evidence, mechanisms
from webapp.claims.corrections import Kind, corrected_quotes
from webapp.claims.extraction.quotes import quotes
from webapp.claims.models import Correction, PaperTable, TableReading
from webapp.claims.tables.shown import ShownTable, main_of, shown_tables

Case = dict[str, Any]


def cases() -> Iterator[Case]:
    """Yield each effective correction with the result of the rules, as JSON values.

    A claim comes from a model; the tests of grounding judge whether a rule marks it.
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
        yield case


def disagreement(case: Case) -> str:
    """Return the result of the rules if it differs from a correction, or ""."""
    checks: dict[str, Callable[[Case, str, Any], str]] = {
        Kind.QUOTE: _of_quote,
        Kind.ROW: _of_row,
        Kind.MAIN: _of_main,
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

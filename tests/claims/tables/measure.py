"""Accuracy on tables of real papers: `python -m tests.claims.tables.measure FOLDER [MARKED]`.

FOLDER holds pages of LaTeXML whose names contain those of structures.jsonl: arXiv's own, or what
LaTeXML made of the sources of a repository, of some only the title, the abstract and the tables. A
line of structures.jsonl says how one table is built, as a person read it before any rule did: how
many rows are its head and how many columns label its rows (and which of these hold numbers), which
columns begin another table beside it, which rows name a block, which add to or take from another or
continue it without a label, which are the paper's own, and whether it holds the main results.
Labels and heads are spelt out of the HTML by the few lines below, not by the code that is measured.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import django
from lxml import html
from lxml.html import HtmlElement

_WITH = ".//*[contains(concat(' ', @class, ' '), ' {} ')]"
MARKED = Path(__file__).with_name("structures.jsonl")
Structure = dict[str, Any]
Grid = dict[tuple[int, int], str]


def main(folder: Path, marks: Path = MARKED) -> None:
    """Print the shares over all marked tables, and the first faults of each."""
    marked: dict[str, list[Structure]] = defaultdict(list)
    for line in marks.read_text().splitlines():
        structure = json.loads(line)
        marked[structure["page"]].append(structure)
    counts: Counter[str] = Counter()
    for name, structures in marked.items():
        page = next((path for path in sorted(folder.glob("*.html")) if name in path.name), None)
        if page is None:
            print(f"no page of {name}")
            continue
        counts += _compared(html.document_fromstring(page.read_bytes()), structures)
    for name, part, whole in (
        ("value with row and head path, of those given words", "values right", "values given"),
        ("given words, of all values", "values given", "values"),
        ("own row or column found, of the tables that have one", "own found", "own tables"),
        ("tables with a false own row or column", "own false", "tables"),
        ("main table right, of the papers that have one", "main right", "papers"),
    ):
        share = f"{counts[part] / counts[whole]:.3f}" if counts[whole] else "–"
        print(f"{name}: {share} ({counts[part]} of {counts[whole]})")


def _compared(root: HtmlElement, structures: list[Structure]) -> Counter[str]:
    """Counts of one paper."""
    from webapp.claims.models import PaperTable
    from webapp.claims.tables.grid import grids_of
    from webapp.claims.tables.reading import Table
    from webapp.claims.tables.shown import ShownTable, main_of, own_names

    title = " ".join("".join(root.xpath("//title//text()")).split())
    abstract = " ".join(
        " ".join(root.xpath("//div[contains(@class,'ltx_abstract')]//p//text()")).split()
    )
    tabulars = [node for node in root.iter() if "ltx_tabular" in (node.get("class") or "").split()]
    places = {tabular: place for place, tabular in enumerate(tabulars)}
    spelt = {place: _spelt(tabular) for place, tabular in enumerate(tabulars)}
    read = [(places[tabular], Table(grid)) for tabular, grid in grids_of(root)]
    names = own_names(title, abstract, [table for _, table in read])
    shown = {
        place: ShownTable(PaperTable(position=number, anchor=table.grid.anchor), table, names, "")
        for number, (place, table) in enumerate(read)
    }
    counts: Counter[str] = Counter()
    for structure in structures:
        table = shown.get(structure["table"])
        if table is None:
            print("not read:", structure)
            continue
        counts += _values(structure, spelt[structure["table"]], table)
    mains = [s["table"] for s in structures if s.get("main")]
    if mains:
        main_table = main_of([*shown.values()])
        best = next((place for place, table in shown.items() if table is main_table), None)
        counts["papers"] += 1
        counts["main right"] += best in mains
        if best not in mains:
            print("main:", structures[0]["page"], "is", mains, "read as", best)
    return counts


def _values(structure: Structure, cells: Grid, table: Any) -> Counter[str]:
    """Counts of one table: values with both paths right, and whether its own row was found."""
    counts: Counter[str] = Counter({"tables": 1})
    own, faults = set(), []
    for value in table.table.values:
        row, column = value.cell.row, value.cell.column
        counts["values"] += 1
        if table.is_own(value):
            own.add((row, column))
        if not value.is_sure:
            continue
        expected = _row(structure, cells, row, column), _head(structure, cells, column)
        read = _plain(value.row_label), _plain(value.head_path)
        is_right = read[0] in expected[0] and read[1] == expected[1]
        counts["values given"] += 1
        counts["values right"] += is_right
        if not is_right:
            faults.append((value.cell.text, *read, "for", *expected))
    if faults:
        print(
            structure["page"], structure["table"], len(faults), "faults:", *faults[:2], sep="\n  "
        )
    true = {
        (value.cell.row, value.cell.column)
        for value in table.table.values
        if value.cell.row in structure.get("own_rows", ())
        or value.cell.column in structure.get("own_columns", ())
    }
    counts["own tables"] += bool(true)
    counts["own found"] += bool(true & own)
    counts["own false"] += bool(own - true)
    if own - true or (true and not own & true):
        print(
            "own:", structure["page"], structure["table"], sorted(own)[:3], "for", sorted(true)[:3]
        )
    return counts


def _row(structure: Structure, cells: Grid, row: int, column: int) -> list[tuple[str, ...]]:
    """The labels that are right for a value."""
    if not structure["stubs"]:
        return [()]
    row = structure.get("continued", {}).get(str(row), row)
    start = max((s for s in structure.get("beside", ()) if s < column), default=0)
    stubs = range(start, min(start + structure["stubs"], column))
    labels = [stub for stub in stubs if stub not in structure.get("numbers", ())]
    label = [cells.get((row, stub), "") for stub in labels]
    for first, last, named in structure.get("groups", ()):
        if first <= row <= last:
            label[0] = cells[named, 0]
    over = max((b for b in structure.get("blocks", ()) if b < row), default=None)
    has_block = over is not None and row not in structure.get("alone", ())
    block = [text for (r, _), text in sorted(cells.items()) if r == over and text][:has_block]
    if base := structure.get("added", {}).get(str(row)):
        return [_plain([*block, cells[base, 0], *label])]
    if base := structure.get("ablated", {}).get(str(row)):
        return [_plain([*block, *label]), _plain([*block, cells[base, 0], *label])]
    group = next((cells[r, 0] for r in range(row, 0, -1) if cells.get((r, 0))), "")
    return [_plain([*block, *label]), _plain([*block, group, *label])]  # named once, above


def _head(structure: Structure, cells: Grid, column: int) -> tuple[str, ...]:
    return _plain([cells.get((row, column), "") for row in range(structure.get("heads", 1))])


def _plain(texts: Any) -> tuple[str, ...]:
    """Letters and digits of ASCII alone, commands left out, each text once in a row."""
    named = (re.sub(r"\\(max|min|log|exp)\b", r"\1", text) for text in texts)
    plain = [re.sub(r"\\[A-Za-z]+|[^A-Za-z0-9]", "", text).lower() for text in named]
    return tuple(t for i, t in enumerate(plain) if t and (i == 0 or t != plain[i - 1]))


def _spelt(tabular: HtmlElement) -> Grid:
    """The text at each place of a table, spans filled in."""
    cells: Grid = {}
    lines = [line for line in tabular.xpath(_WITH.format("ltx_tr")) if _tabular_of(line) is tabular]
    for row, line in enumerate(lines):
        column = 0
        for cell in line.xpath(_WITH.format("ltx_td").replace("//", "/")):
            while (row, column) in cells:
                column += 1
            text = " ".join((_text(cell).strip() or _text(cell, citations=True)).split())
            wide, high = (_span(cell, name) for name in ("col", "row"))
            for place in ((row + i, column + j) for i in range(high) for j in range(wide)):
                cells[place] = text
            column += wide
    return cells


def _span(cell: HtmlElement, kind: str) -> int:
    """The columns or rows of a cell: an attribute of a table's cell, a class of any other's."""
    stated = re.search(rf"ltx_{kind}span_(\d+)", cell.get("class") or "")
    return int(cell.get(f"{kind}span") or (stated[1] if stated else 1))


def _tabular_of(node: HtmlElement) -> HtmlElement:
    return next(n for n in node.iterancestors() if "ltx_tabular" in (n.get("class") or "").split())


def _text(node: HtmlElement, citations: bool = False) -> str:
    """The text of a cell; a citation counts where it is all of it."""
    css = node.get("class") or ""
    if node.tag == "math":
        return f" {node.get('alttext') or ''} "
    if ("ltx_cite" in css and not citations) or "ltx_ERROR" in css:
        return ""
    inner = (_text(child, citations) + (child.tail or "") for child in node)
    return (node.text or "") + "".join(inner)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()
    main(*map(Path, sys.argv[1:]))

"""Corrected cells of a table.

A cell is named by its table, the label of its row, the heads above it and its text: a name applies
to a newer reading of the paper as long as that has the same cell.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from .grid import Cell, Grid
from .reading import Table

HIDDEN = "–"  # as papers write a cell without a value
_SEPARATOR = "\t"  # which no text of a cell has


def cells_by_name(table_key: str, table: Table) -> dict[str, Cell]:
    """Return the cells of a table by their names; a number tells apart those of one name."""
    labels = {value.cell: " / ".join(value.row_label) for value in table.values}
    counts = Counter[str]()
    names: dict[str, Cell] = {}
    cells = dict.fromkeys(cell for row in table.grid.rows for cell in row if cell is not None)
    for cell in cells:
        label = labels[cell] if cell in labels else " / ".join(_beside(table, cell))
        heads = " / ".join(_above(table, cell))
        name = _SEPARATOR.join((table_key, label, heads, cell.text))
        counts[name] += 1
        names[f"{name}{_SEPARATOR}{counts[name]}" if counts[name] > 1 else name] = cell
    return names


def renamed(name: str, text: str) -> str:
    """Return the name of a cell if it had another text."""
    return _SEPARATOR.join((*name.split(_SEPARATOR)[:3], text))


def without_table(name: str) -> str:
    """Return the name of a cell within its table."""
    return name.partition(_SEPARATOR)[2]


def described(name: str) -> tuple[str, str]:
    """Return the place of a named cell as a page shows it, and its text."""
    table_key, label, heads, text, *count = name.split(_SEPARATOR)
    place = " × ".join(filter(None, (label, heads)))
    number = f" ({count[0]})" if count else ""
    return ": ".join(filter(None, (table_key, f"{place}{number}"))), text


def with_texts(table_key: str, table: Table, texts: Mapping[str, str | None]) -> Table:
    """Return a table with other texts in some named cells; None hides a cell's text."""
    names = cells_by_name(table_key, table) if texts else {}
    changed = {
        names[name]: replace(names[name], text=text, instead_of=names[name].text)
        if text
        else replace(names[name], text=HIDDEN, note="", instead_of=names[name].text)
        for name, text in texts.items()
        if name in names
    }
    if not changed:
        return table
    rows = [[changed.get(cell, cell) if cell else None for cell in row] for row in table.grid.rows]
    return Table(Grid(rows, table.grid.caption, table.grid.number, table.grid.anchor))


def row_names(table: Table) -> list[str]:
    """Return what stands in the columns of labels of each row, for a list to choose from."""
    return [" / ".join(_labels(table, row)) for row in range(len(table.grid.rows))]


def column_names(table: Table) -> list[str]:
    """Return the heads of each column, for a list to choose from."""
    return [" / ".join(table.head_path(column)) for column in range(table.grid.width)]


def _beside(table: Table, cell: Cell) -> list[str]:
    """Return the labels of a cell's row, except the cell itself; none of a head."""
    if cell.row < table.head_rows:
        return []
    own = {cell.text} if any(cell.column in stub for stub in table.stubs) else set()
    return [text for text in _labels(table, cell.row) if text not in own]


def _above(table: Table, cell: Cell) -> list[str]:
    """Return the heads over a cell, except the cell itself."""
    heads = (table.grid.rows[row][cell.column] for row in range(min(cell.row, table.head_rows)))
    texts = [head.text for head in heads if head is not None and head.text]
    return [*dict.fromkeys(texts)]


def _labels(table: Table, row: int) -> list[str]:
    cells = (table.grid.rows[row][column] for column in table.stubs[0])
    return [*dict.fromkeys(cell.text for cell in cells if cell is not None and cell.text)]

"""Tables of a paper as its page shows them: main results first, the paper's own row marked."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from webapp.claims.corrections import Kind, corrected
from webapp.claims.models import PaperTable, TableReading
from webapp.papers.models import Paper

from .cells import cells_by_name, column_names, row_names, with_texts
from .grid import Cell
from .metrics import direction, direction_of_caption, first_sentence
from .own import (
    is_attribute,
    is_difference,
    is_official,
    is_own,
    is_own_head,
    names_in_tables,
    proposed_names,
)
from .reading import Table, Value
from .store import unpacked

MAX_ROWS = 60  # shown of one table
OUTLIER = 10  # times the middle of a column: another unit, or a misread number
_NO_RESULT = re.compile(
    r"hyper-?parameter|statistics|notation|configuration|composition|data ?sets? (?:used|overview)|"
    r"training (?:details|settings|data)|symbols|taxonomy|abbreviation|distribution of|"
    r"number of (?:samples|examples|images|documents|questions)|overview of|summary of the data",
    re.IGNORECASE,
)
_ABLATION = re.compile(
    r"ablat|sensitivit|effects? of|impact of|influence of|variants?\b|varying|different (?:values|"
    r"numbers|sizes|choices) of|hyper-?parameter|sweep|trade-?off|component",
    re.IGNORECASE,
)
_MAIN = re.compile(
    r"\bmain\b|\bcompar(?:ed?|isons?)\b|state[- ]of[- ]the[- ]art|overall|\bresults?\b|"
    r"baselines|accuracy on|performance",
    re.IGNORECASE,
)
# A label that only says what was set: "0.5", "k = 4", "8 layers", "50%".
_SETTING = re.compile(
    r"(?:[\w\\]{1,12}\s?[=:@]\s?)?[-+]?[\d.,]+\s?[%kKMB×x]?(?: ?[a-z]+)?", re.IGNORECASE
)


@dataclass(frozen=True)
class ShownRow:
    """A row of the body: its distinct cells in order, and whether it is the paper's own."""

    cells: list[Cell]
    is_own: bool
    is_block: bool


@dataclass(frozen=True)
class ShownTable:
    """A stored table with everything that a page shows of it."""

    stored: PaperTable
    table: Table
    names: Sequence[str]
    link: str  # to the table on arXiv's page
    as_read: Table | None = None  # before readers' corrections of its cells
    # Of the own row, by a reader: [label], or [None] where no row is the paper's own.
    corrected_own: Sequence[str | None] = ()

    @property
    def title(self) -> str:
        """Title of the table in the paper: "Table 3"."""
        return self.stored.number

    @property
    def key(self) -> str:
        """Key under which corrections refer to the table."""
        return _key(self.stored)

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """Cells as the paper's HTML has them, by the names that corrections refer to."""
        return cells_by_name(self.key, self.as_read or self.table)

    @property
    def height(self) -> int:
        """Number of rows, those of the head included."""
        return len(self.table.grid.rows)

    @property
    def row_names(self) -> list[str]:
        """Labels of all rows, for the choice of a cell."""
        return row_names(self.table)

    @property
    def column_names(self) -> list[str]:
        """Heads of the columns, for the choice of a cell."""
        return column_names(self.table)

    @cached_property
    def labels(self) -> list[str]:
        """Labels of rows and heads of columns, one of which may be the paper's own."""
        rows = [_joined(value.row_label) for value in self.table.values]
        columns = [_joined(value.head_path) for value in self.table.values]
        return [*filter(None, dict.fromkeys([*rows, *columns]))]

    @property
    def own_label(self) -> str:
        """Label of the paper's own row or column, or ""."""
        labels = (
            _joined(value.row_label if value.cell.row in self._own_rows else value.head_path)
            for value in self.table.values
            if self.is_own(value)
        )
        return next(labels, "")

    def is_own(self, value: Value) -> bool:
        """True if a value stands in the row or column of the paper's own method."""
        return value.cell.row in self._own_rows or value.cell.column in self.own_columns

    @cached_property
    def _own_rows(self) -> set[int]:
        if self.corrected_own:
            return {
                value.cell.row
                for value in self._values_before_and_after
                if _joined(value.row_label) in self.corrected_own
            }
        labels = {value.cell.row: value.row_label for value in self.table.values}
        is_repetition = any(map(is_official, labels.values()))
        rows = {
            row
            for row, label in labels.items()
            if is_own(label, self.names)
            and not (is_repetition and "(our" in _joined(label).casefold())
        }
        return rows or (set() if self.own_columns else self._highlighted)

    @property
    def _values_before_and_after(self) -> list[Value]:
        """Values with their labels before and after corrections: either may have been chosen."""
        before = self.as_read.values if self.as_read else []
        return [*before, *self.table.values]

    @cached_property
    def _highlighted(self) -> set[int]:
        """Rows, at most a few, that the paper colours whole and that hold its best values."""
        rows: dict[int, list[Cell]] = defaultdict(list)
        for value in self.table.values:
            if not is_difference(value.row_label) and value.is_sure:
                rows[value.cell.row].append(value.cell)
        bold = {row: sum(cell.is_bold for cell in cells) for row, cells in rows.items()}
        coloured = {
            row for row in rows if all(cell.is_coloured for cell in self.table.grid.distinct(row))
        }
        others = [bold[row] for row in rows if row not in coloured]
        is_few = len(coloured) <= max(1, len(rows) // 3) and len(rows) > 2
        least = min((bold[row] for row in coloured), default=0)
        is_best = least > max(others, default=0)
        return coloured if is_few and is_best else set()

    @property
    def cell_id(self) -> str:
        """Prefix of the ids of the table's cells on the page; row and column follow."""
        return f"table-{self.stored.position + 1}"

    @property
    def head(self) -> list[list[Cell]]:
        """The rows of the head, each with the cells that begin in it."""
        return [self._cells(row) for row in range(self.table.head_rows)]

    @cached_property
    def rows(self) -> list[ShownRow]:
        """The rows of the body that are shown."""
        first = self.table.head_rows
        return [
            ShownRow(self._cells(row), row in self._own_rows, self.table.is_block(row))
            for row in range(first, min(self.height, first + MAX_ROWS))
        ]

    def _cells(self, row: int) -> list[Cell]:
        cells = self.table.grid.rows[row]
        return [
            cell if cell is not None else Cell("", row, column)
            for column, cell in enumerate(cells)
            if cell is None or (cell.row, cell.column) == (row, column)
        ]

    @property
    def left_out(self) -> int:
        """Number of rows that are not shown."""
        return max(0, self.height - self.table.head_rows - MAX_ROWS)

    @property
    def own_found(self) -> bool:
        """True if a row belongs to the paper's own method."""
        return any(row.is_own for row in self.rows)

    @cached_property
    def best(self) -> frozenset[tuple[int, int]]:
        """Positions of the best values of each column and block.

        A column has one only if an arrow or metric above it gives the better direction, no value
        lies far outside the others, and the paper's bold figures agree.
        """
        columns: dict[tuple[int, tuple[str, ...] | None], list[Value]] = defaultdict(list)
        bold = {value.cell.column for value in self.table.values if value.cell.is_bold}
        for value in self.table.values:
            texts = (*value.row_label, *value.head_path)
            if value.is_sure and not is_difference(texts) and not is_attribute(value.head_path):
                columns[value.cell.column, value.block].append(value)
                if value.cell.column in bold:
                    columns[value.cell.column, None].append(value)
        heads = {value.head_path for value in self.table.values}
        caption = self.table.grid.caption
        by_caption = "" if any(map(direction, heads)) else direction_of_caption(caption)
        best = [
            cell
            for values in columns.values()
            for cell in _best(values, direction(values[0].head_path) or by_caption)
        ]
        agreed = (cell for cell in best if cell.is_bold or cell.column not in bold)
        return frozenset((cell.row, cell.column) for cell in agreed)

    @property
    def has_own(self) -> bool:
        """True if a row or column belongs to the paper's own method."""
        return self.own_found or bool(self.own_columns)

    def is_label(self, cell: Cell) -> bool:
        """True if a cell is the innermost label of its row, which may wrap."""
        return cell.column == self.table.stubs[0].stop - 1

    def is_best(self, cell: Cell) -> bool:
        """True if a cell holds the best value of its column."""
        return (cell.row, cell.column) in self.best

    @cached_property
    def own_columns(self) -> set[int]:
        """Columns of the paper's own method, in a table whose column heads are methods."""
        if self.corrected_own:
            return {
                value.cell.column
                for value in self._values_before_and_after
                if _joined(value.head_path) in self.corrected_own
            }
        return {
            value.cell.column
            for value in self.table.values
            if is_own_head(value.head_path, self.names)
        }

    @property
    def is_result(self) -> bool:
        """True if the table reports results: enough values, few settings, nothing against it."""
        values = self.table.values
        given = sum(is_attribute(value.head_path) for value in values)
        return len(values) >= 4 and not self._says(_NO_RESULT) and given * 2 <= len(values)

    @property
    def is_variation(self) -> bool:
        """True if the table compares variants of one method: an ablation or a numeric sweep."""
        labels = [label[-1] for label in self._compared if label]
        numbers = sum(bool(_SETTING.fullmatch(label)) for label in labels)
        return self._says(_ABLATION) or (len(labels) > 1 and numbers * 2 > len(labels))

    @property
    def _marks_best(self) -> bool:
        """True if bold marks best values: most rows are partly bold, or several columns have it."""
        rows: dict[int, list[bool]] = defaultdict(list)
        for value in self.table.values:
            rows[value.cell.row].append(value.cell.is_bold)
        mixed = sum(any(bold) and not all(bold) for bold in rows.values())
        columns = {value.cell.column for value in self.table.values if value.cell.is_bold}
        return mixed * 2 > len(rows) or len(columns) > 1

    def _says(self, pattern: re.Pattern[str]) -> bool:
        """True if the first sentence of the caption matches; the rest explains how it was done."""
        return bool(pattern.search(first_sentence(self.table.grid.caption)))

    @cached_property
    def _compared(self) -> set[tuple[str, ...]]:
        """Row labels that the table compares, or outermost heads if methods head its columns."""
        if self.own_columns and not self.own_found:
            return {value.head_path[:1] for value in self.table.values}
        return {value.row_label[len(value.block) :] for value in self.table.values}

    @property
    def rank(self) -> tuple[bool, bool, bool, bool, bool]:
        """Rank as the main table: highest for a comparison with the paper's own method."""
        is_appendix = bool(re.match(r"A\d", self.stored.anchor))
        return (
            self.is_result and not self.is_variation,
            self.has_own,
            not is_appendix,
            self._says(_MAIN),
            self._marks_best,
        )


def _joined(label: Sequence[str]) -> str:
    return " / ".join(label)


def _best(values: Sequence[Value], better: str) -> list[Cell]:
    """Return the cells with the best of a column's values, or none if that is uncertain."""
    if not better or len(values) < 2:
        return []
    sizes = sorted(abs(value.value) for value in values if value.value)
    middle = sizes[len(sizes) // 2] if sizes else 0
    top = (max if better == "higher" else min)(value.value for value in values)
    if middle and not middle / OUTLIER <= abs(top) <= middle * OUTLIER:
        return []
    return [value.cell for value in values if value.value == top]


@dataclass(frozen=True)
class ShownTables:
    """The tables of a paper's latest reading, or why there are none."""

    reading: TableReading | None
    main: ShownTable | None
    others: list[ShownTable]
    gone: frozenset[str] = frozenset()  # corrected cells that this reading does not have

    @property
    def all(self) -> list[ShownTable]:
        """Every table, the main results first."""
        return [*([self.main] if self.main else []), *self.others]


def tables_of(paper: Paper) -> ShownTables:
    """Return the tables of the newest version that was read, main results apart from the rest."""
    reading = TableReading.objects.filter(paper=paper).order_by("-version").first()
    texts = corrected(paper, Kind.CELL)
    if reading is None:
        return ShownTables(None, None, [], frozenset(texts))
    page = f"https://arxiv.org/html/{paper.arxiv_id}v{reading.version}"
    shown = shown_tables(paper.title, paper.abstract, reading.tables.all(), page, texts)
    own_rows, is_main = (corrected(paper, kind) for kind in (Kind.ROW, Kind.MAIN))
    shown = [
        replace(table, corrected_own=[own_rows[table.key]]) if table.key in own_rows else table
        for table in shown
    ]
    named = (table for table in shown if is_main.get(table.key))
    main = next(named, None) or main_of([t for t in shown if is_main.get(t.key, True)])
    others = [table for table in shown if table is not main]
    gone = frozenset(texts).difference(*(table.cells for table in shown if texts))
    return ShownTables(reading, main, others, gone)


def shown_tables(
    title: str,
    abstract: str,
    rows: Iterable[PaperTable],
    page: str = "",
    texts: Mapping[str, str | None] | None = None,
) -> list[ShownTable]:
    """Return stored tables in the form that the rules read.

    `page` is the paper's on arXiv, `texts` are readers' corrections of cells.
    """
    stored = [(row, Table(unpacked(row))) for row in rows]
    tables = [(row, with_texts(_key(row), read, texts or {}), read) for row, read in stored]
    names = own_names(title, abstract, [table for _, table, _ in tables])
    return [
        ShownTable(row, table, names, f"{page}#{row.anchor}" if row.anchor else page, read)
        for row, table, read in tables
    ]


def _key(row: PaperTable) -> str:
    return row.number or f"#{row.position + 1}"


def own_names(title: str, abstract: str, tables: Sequence[Table]) -> list[str]:
    """Return the names of a paper's own method in its title, abstract and tables."""
    labels = (text for table in tables for value in table.values for text in value.row_label)
    captions = (table.grid.caption for table in tables)
    return names_in_tables(proposed_names(title, abstract), labels, captions)


def main_of(tables: Sequence[ShownTable]) -> ShownTable | None:
    """Return the table of the main results, or None if no table reports results.

    It is the first of the highest rank that has at least half as many values as the largest.
    """
    results = [table for table in tables if table.is_result]
    best = max((table.rank for table in results), default=None)
    results = [table for table in results if table.rank == best]
    sizes = [len(table.table.values) for table in results]
    large = (table for table, n in zip(results, sizes, strict=True) if 2 * n >= max(sizes))
    return min(large, key=lambda table: table.stored.position, default=None)

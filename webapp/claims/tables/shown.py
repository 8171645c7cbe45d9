"""The tables of a paper as its page shows them: the main results first, the own row marked."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlencode

from webapp.claims.models import PaperTable, ReportedValue, TableReading
from webapp.papers.models import Paper

from .grid import Cell
from .names import direction, is_own, is_own_head, names_of
from .reading import Table, Value
from .store import unpacked

MAX_ROWS = 60  # shown of one table
_NO_RESULT = re.compile(
    r"hyper-?parameter|statistics|notation|configuration|data ?sets? (?:used|overview)|"
    r"prompt|training (?:details|settings)|symbols|taxonomy|abbreviation",
    re.IGNORECASE,
)
_ABLATION = re.compile(r"ablat|sensitivit|effect of|impact of|variants?\b", re.IGNORECASE)
_MAIN = re.compile(r"\bmain\b|comparison|compared|state[- ]of[- ]the[- ]art|overall", re.IGNORECASE)


@dataclass(frozen=True)
class ShownRow:
    """A row of the body: its cells in order, each once, and whether it is the paper's own."""

    cells: list[Cell]
    is_own: bool
    is_block: bool


@dataclass(frozen=True)
class ShownTable:
    """One stored table with what a page says of it."""

    stored: PaperTable
    table: Table
    names: Sequence[str]
    link: str  # to the table on arXiv's page

    @property
    def title(self) -> str:
        """What the paper calls it: "Table 3"."""
        return self.stored.number

    @cached_property
    def _reported(self) -> dict[tuple[int, int], ReportedValue]:
        return {(value.row, value.column): value for value in self.stored.reported.all()}

    def reported(self, cell: Cell) -> ReportedValue | None:
        """What a cell reports, where its table names every field; else None."""
        return self._reported.get((cell.row, cell.column))

    def quantity(self, cell: Cell) -> str:
        """The query string of the page of the quantity that a cell reports, or ""."""
        value = self.reported(cell)
        return urlencode({"benchmark": value.benchmark, "metric": value.metric}) if value else ""

    def is_own(self, value: Value) -> bool:
        """Whether a value stands in the row or column of the paper's own method."""
        return value.cell.row in self._own_rows or value.cell.column in self.own_columns

    @cached_property
    def _own_rows(self) -> set[int]:
        return {v.cell.row for v in self.table.values if is_own(v.row_label, self.names)}

    @property
    def cell_id(self) -> str:
        """What the ids of its cells on the page begin with; row and column follow."""
        return f"table-{self.stored.position + 1}"

    @property
    def head(self) -> list[list[Cell]]:
        """The rows of the head, each with the cells that begin in it."""
        return [self._cells(row) for row in range(self.table.head_rows)]

    @cached_property
    def rows(self) -> list[ShownRow]:
        """The rows of the body that are shown."""
        first, height = self.table.head_rows, len(self.table.grid.rows)
        return [
            ShownRow(self._cells(row), row in self._own_rows, self.table.is_block(row))
            for row in range(first, min(height, first + MAX_ROWS))
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
        """How many rows are not shown."""
        return max(0, len(self.table.grid.rows) - self.table.head_rows - MAX_ROWS)

    @property
    def own_found(self) -> bool:
        """Whether a row is of the paper's own method."""
        return any(row.is_own for row in self.rows)

    @cached_property
    def best(self) -> frozenset[tuple[int, int]]:
        """Where the best value of a column stands, by row and column.

        As the paper marks it by bold figures; where it marks none in a column and an arrow or the
        metric over it tells which way is better, the best of each block.
        """
        columns: dict[tuple[int, tuple[str, ...]], list[Value]] = defaultdict(list)
        marked: set[int] = {v.cell.column for v in self.table.values if v.cell.is_bold}
        best = [v.cell for v in self.table.values if v.cell.is_bold]
        for value in self.table.values:
            if value.cell.column not in marked:
                columns[value.cell.column, value.block].append(value)
        for values in columns.values():
            if (better := direction(values[0].head_path)) and len(values) > 1:
                pick = max if better == "higher" else min
                top = pick(value.value for value in values)
                best += [value.cell for value in values if value.value == top]
        return frozenset((cell.row, cell.column) for cell in best)

    @property
    def has_own(self) -> bool:
        """Whether a row or column is of the paper's own method."""
        return self.own_found or bool(self.own_columns)

    def is_label(self, cell: Cell) -> bool:
        """Whether a cell is the innermost label of its row, and may be broken into lines."""
        return cell.column == self.table.stubs[0].stop - 1

    def is_best(self, cell: Cell) -> bool:
        """Whether a cell holds the best value of its column."""
        return (cell.row, cell.column) in self.best

    @cached_property
    def own_columns(self) -> set[int]:
        """Where methods stand over columns: the columns of the paper's own."""
        return {
            value.cell.column
            for value in self.table.values
            if is_own_head(value.head_path, self.names)
        }

    @property
    def is_result(self) -> bool:
        """Whether it reports results: numbers, and no caption that says otherwise."""
        return len(self.table.values) >= 4 and not _NO_RESULT.search(self.table.grid.caption)

    @property
    def weight(self) -> tuple[bool, bool, bool, int]:
        """The main table has the greatest: results, no ablation, the own row or a caption so."""
        caption = self.table.grid.caption
        return (
            self.is_result,
            not _ABLATION.search(caption),
            self.has_own or bool(_MAIN.search(caption)),
            -self.stored.position,
        )


@dataclass(frozen=True)
class ShownTables:
    """The tables of a paper's latest reading, or why there are none."""

    reading: TableReading | None
    main: ShownTable | None
    others: list[ShownTable]


def tables_of(paper: Paper) -> ShownTables:
    """The tables of the newest version that was read; the main results apart from the others."""
    reading = TableReading.objects.filter(paper=paper).order_by("-version").first()
    if reading is None:
        return ShownTables(None, None, [])
    names = names_of(paper.title, paper.abstract)
    page = f"https://arxiv.org/html/{paper.arxiv_id}v{reading.version}"
    shown = [
        ShownTable(
            stored,
            Table(unpacked(stored)),
            names,
            f"{page}#{stored.anchor}" if stored.anchor else page,
        )
        for stored in reading.tables.prefetch_related("reported")
    ]
    results = [table for table in shown if table.is_result]
    main = max(results, key=lambda table: table.weight, default=None)
    return ShownTables(reading, main, [table for table in shown if table is not main])

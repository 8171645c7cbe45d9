"""Tables of a paper in the database: read once for each version, replaced whole."""

from collections.abc import Iterable

from django.db import transaction
from lxml.etree import ParserError

from webapp.claims.models import PaperTable, TableReading
from webapp.core import sandbox
from webapp.core.sandbox import UnreadableError
from webapp.papers.latexml import parse
from webapp.papers.models import Paper

from .grid import Cell, Grid, grids_of
from .reading import Table


def store_tables(paper: Paper, version: int, body: bytes) -> TableReading:
    """Read the tables of arXiv's HTML and keep them instead of those that were read before.

    A page without a table, or one that cannot be parsed, is a reading without tables.
    """
    try:
        tables = sandbox.run(tables_of_html, body)
        reason = "" if tables else "its HTML has no table"
    except UnreadableError as error:
        tables, reason = [], f"its HTML could not be read ({error})"
    with transaction.atomic():
        TableReading.objects.filter(paper=paper, version__lt=version).delete()
        reading = without_tables(paper, version, reason)
        PaperTable.objects.bulk_create(
            PaperTable(
                reading=reading,
                position=position,
                number=table.grid.number[:40],
                caption=table.grid.caption,
                anchor=table.grid.anchor[:120],
                cells=packed(table.grid),
            )
            for position, table in enumerate(tables)
        )
    return reading


def tables_of_html(body: bytes) -> list[Table]:
    """Return the tables of a page. Raises UnreadableError."""
    try:
        root = parse(body)
    except (ParserError, ValueError) as error:
        raise UnreadableError("it could not be parsed") from error
    return [Table(grid) for _, grid in grids_of(root)]


def without_tables(paper: Paper, version: int, reason: str) -> TableReading:
    """A reading without tables, and why; what was read of this version before goes."""
    reading, _ = TableReading.objects.update_or_create(
        paper=paper, version=version, defaults={"reason": reason[:300]}
    )
    reading.tables.all().delete()
    return reading


_MARKS = "hbucl"
# A cell in the database: text, row, column, rows, columns, id on arXiv's page, marks, and its note
# where it has one.
Packed = tuple[str, int, int, int, int, str, str] | tuple[str, int, int, int, int, str, str, str]


def packed(grid: Grid) -> list[Packed]:
    """The cells of a grid, each once."""
    cells = dict.fromkeys(cell for row in grid.rows for cell in row if cell is not None)
    return [_packed(cell) for cell in cells]


def _packed(c: Cell) -> Packed:
    packed = (c.text, c.row, c.column, c.rows, c.columns, c.anchor, _marks(c))
    return (*packed, c.note) if c.note else packed


def _marks(c: Cell) -> str:
    """h head, b bold, u underlined, c coloured, l a line above."""
    flags = (c.is_head, c.is_bold, c.is_underlined, c.is_coloured, c.has_line_above)
    return "".join(mark for mark, flag in zip(_MARKS, flags, strict=True) if flag)


def unpacked(table: PaperTable) -> Grid:
    """The grid of a stored table."""
    cells = [_cell(entry) for entry in table.cells]
    height = max((cell.row + cell.rows for cell in cells), default=0)
    width = max((cell.column + cell.columns for cell in cells), default=0)
    rows: list[list[Cell | None]] = [[None] * width for _ in range(height)]
    for cell in cells:
        for row, column in _places(cell):
            if rows[row][column] is None:
                rows[row][column] = cell
    return Grid(rows, table.caption, table.number, table.anchor)


def _cell(packed_cell: Packed) -> Cell:
    text, row, column, rows, columns, anchor, marks, *note = packed_cell
    head, bold, underlined, coloured, line = (mark in marks for mark in _MARKS)
    flags = (head, bold, underlined, coloured, line)
    return Cell(text, row, column, rows, columns, anchor, *flags, note="".join(note))


def _places(cell: Cell) -> Iterable[tuple[int, int]]:
    for row in range(cell.row, cell.row + cell.rows):
        for column in range(cell.column, cell.column + cell.columns):
            yield row, column

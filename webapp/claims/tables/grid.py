"""A table of arXiv's HTML as a grid of cells, as the paper has it.

LaTeXML marks tables, rows and cells by classes, whatever the tags: inside a paragraph or a box they
are spans. Line breaks between the cells mean nothing. Inside a cell, mathematics is read from its
source (`alttext`), citations and footnotes are left out, and a tabular is either broken lines of
one cell (`\\makecell`) or the layout of several tables.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from lxml.html import HtmlElement

from webapp.papers.latexml import Line, is_colour, is_row_colour, plain_tex, read

MAX_TABLES = 80  # of one paper
MAX_CELLS = 6000  # of one table, spans filled in
MAX_SPAN = 60
MAX_CAPTION = 1200  # characters
MAX_TEXT = 300  # characters of one cell
_SPAN = re.compile(r"\bltx_(col|row)span_(\d{1,3})\b")
_BORDER = re.compile(r"\bltx_border_(\w+)")
_COLOURED = re.compile(
    r"(?:^|;)\s*(?:--ltx-[fb]g-color|(?:background-)?color)\s*:\s*"
    r"(?!#(?:0{3}|0{6}|f{3}|f{6})\b|black|white|inherit|transparent)\S",
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(
    r"\bltx_(?:cite|note|ERROR|note_mark|rule|bibliography|tag_bibitem)\b|\bltx_role_footnote\b"
)
_TAG = re.compile(r"^\s*(Table|Tab\.|Figure|Fig\.|Algorithm)\s*[A-Z]?[\d.]*[a-z]?\s*[:.]?\s*", re.I)


@dataclass(frozen=True)
class Cell:
    """A cell: its text and where it stands; a spanning cell stands at several places."""

    text: str
    row: int
    column: int
    rows: int = 1
    columns: int = 1
    anchor: str = ""  # the id that arXiv's page gives it: a link can point to it
    is_head: bool = False  # LaTeXML took it for one
    is_bold: bool = False
    is_underlined: bool = False
    is_coloured: bool = False  # its text or its ground
    has_line_above: bool = False
    note: str = ""  # what is raised or lowered beside a number
    instead_of: str = ""  # the text in the paper's HTML, where a reader corrected it


@dataclass(frozen=True)
class Grid:
    """A table: `rows[r][c]` is the cell at row r and column c, the same where one spans several.

    Every row has the same number of columns; None stands where the table has no cell.
    """

    rows: list[list[Cell | None]]
    caption: str = ""
    number: str = ""  # "Table 3", as the paper calls it
    anchor: str = ""

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0]) if self.rows else 0

    def distinct(self, row: int) -> list[Cell]:
        """Return the non-empty cells of a row, each once, from left to right."""
        cells: list[Cell] = []
        for cell in self.rows[row]:
            if cell is not None and cell.text and (not cells or cells[-1] is not cell):
                cells.append(cell)
        return cells


def grids_of(root: HtmlElement) -> Iterator[tuple[HtmlElement, Grid]]:
    """Every table of a page with the element that holds it, in the order of the page.

    A tabular that lays out others is left out, and those that it holds are tables.
    """
    count = 0
    for tabular in root.iter():
        if not _has_class(tabular, "ltx_tabular") or not _is_table(tabular):
            continue
        grid = _grid(tabular)
        if grid is not None:
            yield tabular, grid
            count += 1
            if count == MAX_TABLES:
                return


def _has_class(node: HtmlElement, name: str) -> bool:
    """True if the element has the class; a comment never has one."""
    return isinstance(node.tag, str) and name in (node.get("class") or "").split()


def _is_table(tabular: HtmlElement) -> bool:
    """True if a tabular is a table in its own right: neither the lines of a cell nor a layout."""
    if _is_layout(tabular):
        return False
    outer = next(
        (node for node in tabular.iterancestors() if _has_class(node, "ltx_tabular")), None
    )
    return outer is None or _is_layout(outer)


def _is_layout(tabular: HtmlElement) -> bool:
    """True if a tabular only arranges tables: one inside it has several rows and columns."""
    return any(
        _has_class(inner, "ltx_tabular") and _is_wide(inner) for inner in tabular.iterdescendants()
    )


def _is_wide(tabular: HtmlElement) -> bool:
    """True if a tabular has at least two rows, one of them with at least two cells."""
    rows = [len(_cells(row)) for row in _rows(tabular)]
    return len(rows) > 1 and max(rows) > 1


def _rows(tabular: HtmlElement) -> list[HtmlElement]:
    return list(_nearest(tabular, ("ltx_tr",)))


def _cells(row: HtmlElement) -> list[HtmlElement]:
    return list(_nearest(row, ("ltx_td", "ltx_th")))


def _nearest(node: HtmlElement, names: tuple[str, ...]) -> Iterator[HtmlElement]:
    """Yield descendants of a class that are in no other such table, row or cell between."""
    pending = list(node)[::-1]
    while pending:
        child = pending.pop()
        if any(_has_class(child, name) for name in names):
            yield child
        elif not _has_class(child, "ltx_tabular"):
            pending += list(child)[::-1]


def _grid(tabular: HtmlElement) -> Grid | None:
    """Return the grid of a tabular; None if it has under two rows or columns, or far too many.

    Spans are filled in; a cell takes the first free position in its row.
    """
    rows = _rows(tabular)
    taken: dict[tuple[int, int], Cell] = {}
    width = 0
    for r, row in enumerate(rows):
        c = 0
        is_coloured = any(map(_colours_row, islice(row.iter(), MAX_SPAN)))
        for element in _cells(row):
            while (r, c) in taken:
                c += 1
            cell = _cell(element, r, c, len(rows), is_coloured=is_coloured)
            for place in _places(cell):
                taken.setdefault(place, cell)
            if (grown := _grown_upwards(cell, _rows_upwards(element), taken)) != cell:
                taken |= dict.fromkeys(_places(grown), grown)
            c += cell.columns
            width = max(width, c)
            if len(taken) > MAX_CELLS:
                return None
    if len(rows) < 2 or width < 2 or len(rows) * width > MAX_CELLS:
        return None
    caption, number = _caption(tabular)
    filled = [[taken.get((r, c)) for c in range(width)] for r in range(len(rows))]
    return Grid(filled, caption, number, tabular.get("id") or "")


def _places(cell: Cell) -> Iterator[tuple[int, int]]:
    """Yield the grid positions that a cell covers."""
    for row in range(cell.row, cell.row + cell.rows):
        for column in range(cell.column, cell.column + cell.columns):
            yield row, column


def _rows_upwards(element: HtmlElement) -> int:
    """Return the number of rows above a cell that it spans, as with \\multirow{-3}."""
    css = f"{element.get('class') or ''} ltx_rowspan_{element.get('rowspan') or ''} "
    stated = re.search(r"\bltx_rowspan_-(\d{1,2})\s", css)
    return int(stated[1]) - 1 if stated else 0


def _grown_upwards(cell: Cell, rows: int, taken: dict[tuple[int, int], Cell]) -> Cell:
    """Return a cell extended over the empty cells above it that its negative span covers."""
    top = cell
    while rows > 0 and (above := taken.get((top.row - 1, cell.column))) and not above.text:
        top, rows = above, rows - above.rows
    height = cell.row - top.row + cell.rows
    return replace(cell, row=top.row, rows=height, has_line_above=top.has_line_above)


def _cell(element: HtmlElement, row: int, column: int, height: int, *, is_coloured: bool) -> Cell:
    css = element.get("class") or ""
    spans = {kind: int(number) for kind, number in _SPAN.findall(css)}
    for kind in ("col", "row"):
        stated = element.get(f"{kind}span") or ""
        if stated.isdecimal():
            spans[kind] = int(stated[:4])
    borders = _BORDER.findall(css)
    line = cell_line(element)
    return Cell(
        text=line.text[:MAX_TEXT],
        note=line.note[:MAX_TEXT],
        row=row,
        column=column,
        rows=max(1, min(spans.get("row", 1), height - row)),
        columns=max(1, min(spans.get("col", 1), MAX_SPAN)),
        anchor=element.get("id") or "",
        is_head=element.tag == "th" or "ltx_th" in css.split(),
        is_bold=_is_marked(element, "ltx_font_bold", r"\mathbf", r"\bm"),
        is_underlined=_is_marked(
            element, "ltx_ulem_uline", "ltx_framed_underline", r"\underline", "ltx_underline"
        ),
        is_coloured=is_coloured or any(map(_is_coloured, element.iter())),
        has_line_above=any(border in {"t", "tt"} for border in borders),
    )


def _is_marked(cell: HtmlElement, *marks: str) -> bool:
    """True if an element of the cell has one of the classes, or its TeX one of the commands."""
    for node in cell.iter():
        if not isinstance(node.tag, str):
            continue
        classes, tex = (node.get("class") or "").split(), node.get("alttext") or ""
        if any(mark in (tex if mark[0] == "\\" else classes) for mark in marks):
            return True
    return False


def _is_coloured(node: HtmlElement) -> bool:
    if not isinstance(node.tag, str):
        return False
    style, tex = node.get("style") or "", node.get("alttext") or ""
    return bool(_COLOURED.search(style) or "color" in tex) or is_colour(node.text or "")


def _colours_row(node: HtmlElement) -> bool:
    if _has_class(node, "ltx_tr"):
        return bool(_COLOURED.search(node.get("style") or ""))
    return _has_class(node, "ltx_ERROR") and is_row_colour(node.text or "")


def cell_line(element: HtmlElement) -> Line:
    """Return an element's text on one line, with formulas as text and its raised notes.

    Citations are left out unless they are the whole content.
    """
    line = _line(element, leave_out=True)
    return line if line.text else _line(element, leave_out=False)


def _line(element: HtmlElement, *, leave_out: bool) -> Line:
    def write(node: HtmlElement, line: str) -> Line | None:
        if node.tag == "math":
            return plain_tex(node.get("alttext") or "", line)
        is_left_out = leave_out and node is not element
        return Line("") if is_left_out and _LEFT_OUT.search(node.get("class") or "") else None

    pieces = list(read(element, write, _cell_spacing))
    text = " ".join("".join(piece.text for piece in pieces).split())
    return Line(text, " ".join(filter(None, (piece.note for piece in pieces))))


def _cell_spacing(node: HtmlElement) -> tuple[str, str]:
    """Return a space in place of a line or cell inside a cell."""
    css = (node.get("class") or "").split()
    return (" " if node.tag == "br" or "ltx_tr" in css or "ltx_td" in css else ""), ""


def _caption(tabular: HtmlElement) -> tuple[str, str]:
    """Return the caption nearest to a table, a panel's before its figure's, and its number."""
    caption = number = ""
    for node in tabular.iterancestors():
        if not (
            node.tag == "figure" or _has_class(node, "ltx_table") or _has_class(node, "ltx_figure")
        ):
            continue
        captions = _nearest(node, ("ltx_caption",))
        text = next((cell_line(element).text for element in captions), "")
        tag = _TAG.match(text)
        caption = caption or text[tag.end() if tag else 0 :]
        if tag:
            number = tag.group().strip(" :.")
            break
    return caption[:MAX_CAPTION], number

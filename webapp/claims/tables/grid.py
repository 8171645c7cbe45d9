"""A table of arXiv's HTML as a grid of cells, as the paper has it.

LaTeXML marks tables, rows and cells by classes, whatever the tags: inside a paragraph or a box they
are spans. Line breaks between the cells mean nothing. Inside a cell, mathematics is read from its
source (`alttext`), citations and footnotes are left out, and a tabular is either broken lines of
one cell (`\\makecell`) or the layout of several tables.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lxml.html import HtmlElement

MAX_TABLES = 80  # of one paper
MAX_CELLS = 6000  # of one table, spans filled in
MAX_SPAN = 60
MAX_CAPTION = 1200  # characters
MAX_TEXT = 300  # characters of one cell
_SPAN = re.compile(r"\bltx_(col|row)span_(\d{1,3})\b")
_BORDER = re.compile(r"\bltx_border_(\w+)")
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
    has_line_above: bool = False


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
        """The number of columns."""
        return len(self.rows[0]) if self.rows else 0

    def distinct(self, row: int) -> list[Cell]:
        """The cells of a row that say something, each once, from left to right."""
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
        if not _has(tabular, "ltx_tabular") or not _is_table(tabular):
            continue
        grid = _grid(tabular)
        if grid is not None:
            yield tabular, grid
            count += 1
            if count == MAX_TABLES:
                return


def _has(node: HtmlElement, name: str) -> bool:
    """Whether an element has a class; comments have none."""
    return isinstance(node.tag, str) and name in (node.get("class") or "").split()


def _is_table(tabular: HtmlElement) -> bool:
    """Whether a tabular is a table of its own: not lines of a cell, not only a layout."""
    if _is_layout(tabular):
        return False
    outer = next((node for node in tabular.iterancestors() if _has(node, "ltx_tabular")), None)
    return outer is None or _is_layout(outer)


def _is_layout(tabular: HtmlElement) -> bool:
    """Whether it only arranges tables: it holds one of several rows and columns."""
    return any(
        _has(inner, "ltx_tabular") and _is_wide(inner) for inner in tabular.iterdescendants()
    )


def _is_wide(tabular: HtmlElement) -> bool:
    """Whether it has at least two rows, one of them with at least two cells."""
    rows = [len(_cells(row)) for row in _rows(tabular)]
    return len(rows) > 1 and max(rows) > 1


def _rows(tabular: HtmlElement) -> list[HtmlElement]:
    return list(_nearest(tabular, ("ltx_tr",)))


def _cells(row: HtmlElement) -> list[HtmlElement]:
    return list(_nearest(row, ("ltx_td", "ltx_th")))


def _nearest(node: HtmlElement, names: tuple[str, ...]) -> Iterator[HtmlElement]:
    """Descendants of a class that stand in no other such table, row or cell."""
    pending = list(node)[::-1]
    while pending:
        child = pending.pop()
        if any(_has(child, name) for name in names):
            yield child
        elif not _has(child, "ltx_tabular"):
            pending += list(child)[::-1]


def _grid(tabular: HtmlElement) -> Grid | None:
    """The grid of a tabular, or None where it has fewer than two rows or columns, or far too many.

    Spans are filled in; a cell takes the first free place of its row.
    """
    rows = _rows(tabular)
    taken: dict[tuple[int, int], Cell] = {}
    width = 0
    for r, row in enumerate(rows):
        c = 0
        for element in _cells(row):
            while (r, c) in taken:
                c += 1
            cell = _cell(element, r, c, len(rows))
            for at in ((r + i, c + j) for i in range(cell.rows) for j in range(cell.columns)):
                taken.setdefault(at, cell)
            c += cell.columns
            width = max(width, c)
            if len(taken) > MAX_CELLS:
                return None
    if len(rows) < 2 or width < 2 or len(rows) * width > MAX_CELLS:
        return None
    caption, number = _caption(tabular)
    filled = [[taken.get((r, c)) for c in range(width)] for r in range(len(rows))]
    return Grid(filled, caption, number, tabular.get("id") or "")


def _cell(element: HtmlElement, row: int, column: int, height: int) -> Cell:
    css = element.get("class") or ""
    spans = {kind: int(number) for kind, number in _SPAN.findall(css)}
    for kind in ("col", "row"):
        stated = element.get(f"{kind}span") or ""
        if stated.isdecimal():
            spans[kind] = int(stated[:4])
    borders = _BORDER.findall(css)
    text = cell_text(element)
    return Cell(
        text=text[:MAX_TEXT],
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
        has_line_above=any(border in {"t", "tt"} for border in borders),
    )


def _is_marked(cell: HtmlElement, *marks: str) -> bool:
    """Whether something in a cell bears one of the classes, or its TeX one of the commands."""
    for node in cell.iter():
        if not isinstance(node.tag, str):
            continue
        classes, tex = (node.get("class") or "").split(), node.get("alttext") or ""
        if any(mark in (tex if mark[0] == "\\" else classes) for mark in marks):
            return True
    return False


def cell_text(element: HtmlElement) -> str:
    """The words of an element in one line, formulas as `plain_tex` has them.

    Citations are left out unless they are all there is.
    """
    text = _text(element, leave_out=True)
    return text or _text(element, leave_out=False)


def _text(element: HtmlElement, *, leave_out: bool) -> str:
    parts: list[str] = []
    # A stack of nodes and of texts that follow them: recursion ends at Python's depth.
    pending: list[HtmlElement | str] = [element]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        if node is not element and node.tail:
            pending.append(node.tail)
        if not isinstance(node.tag, str):
            continue
        if node.tag == "math":
            parts.append(plain_tex(node.get("alttext") or ""))
            continue
        css = node.get("class") or ""
        if node is not element and leave_out and _LEFT_OUT.search(css):
            continue
        if node.tag == "br" or "ltx_tr" in css.split() or "ltx_td" in css.split():
            parts.append(" ")
        pending += list(node)[::-1]
        if node.text:
            pending.append(node.text)
    return " ".join("".join(parts).split())


# Commands and the signs that they stand for.
_SIGNS = """
    pm ± times × uparrow ↑ downarrow ↓ leq ≤ le ≤ geq ≥ ge ≥ approx ≈ sim ~ cdot · infty ∞ ell ℓ
    rightarrow → to → dagger † dag † ddagger ‡ ddag ‡ star * ast * checkmark ✓
    alpha α beta β gamma γ delta δ epsilon ε varepsilon ε lambda λ mu μ sigma σ tau τ theta θ
    rho ρ eta η kappa κ phi φ psi ψ omega ω pi π Delta Δ
"""
_PAIRS = iter(_SIGNS.split())
_COMMANDS = dict(zip(_PAIRS, _PAIRS, strict=True)) | {"quad": " ", "qquad": " "}
_COMMAND = re.compile(r"\\(?:([A-Za-z]+)\*?\s?|(.))", re.S)


def plain_tex(tex: str) -> str:
    """A short formula in one line of text: "85.3\\pm 0.2" is "85.3±0.2".

    Fonts and braces go, known signs become letters, other commands keep their name.
    """

    def said(match: re.Match[str]) -> str:
        name, sign = match.groups()
        if name is None:
            return " " if sign in " ,;:!" else sign
        return _COMMANDS.get(name, "" if _IS_STYLE.match(name) else name)

    text = _COMMAND.sub(said, tex)
    # A spread set small; the power of ten keeps its sign.
    text = re.sub(r"(?<!10)(?<!10\})[_^]\s*\{?\s*(±|[+-])", r"\1", text)
    text = re.sub(r"[{}]|(?<=\d)\s+(?=[±%])|(?<=±)\s+", "", text.replace("_{", "_"))
    return re.sub(r"\^(?=[*†‡↑↓])", "", text)


_IS_STYLE = re.compile(
    r"(?:math|text|bold|display|script|operator)\w*$|(?:bm|bf|rm|it|sf|tt|underline|uline|hbox)$"
    r"|(?:mbox|left|right|big|Big|bigg|tiny|small|scriptsize|footnotesize|color|textcolor|mathbin)$"
)


def _caption(tabular: HtmlElement) -> tuple[str, str]:
    """The caption nearest to a table, a panel's before its figure's, and the table's number."""
    caption = number = ""
    for node in tabular.iterancestors():
        if not (node.tag == "figure" or _has(node, "ltx_table") or _has(node, "ltx_figure")):
            continue
        captions = _nearest(node, ("ltx_caption",))
        text = next((cell_text(element) for element in captions), "")
        tag = _TAG.match(text)
        caption = caption or text[tag.end() if tag else 0 :]
        if tag:
            number = tag.group().strip(" :.")
            break
    return caption[:MAX_CAPTION], number

"""Structure of a table: its head, its row labels, and each number under both.

Values are safe and names are hard: a value stands under "row label × head path", in the table's own
words, and is given a metric or a data set only where one of them names it (`names`).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

from .grid import Cell, Grid

_NUMBER = r"[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?"
_POWER = r"(?P<times>\s?[×·*]\s?10)?\^(?P<power>[-+−]?\d{1,3})"
_SPREAD = r"(?P<spread>(?:\d+(?:\.\d+)?|\.\d+))"
_UNIT = r"(?P<unit>%|×|x|K|M|B|T|k|ms|s|min|h|GB|MB|GiB|MiB|dB|Hz|fps|pp|pts?|°)?"
_MARKS = r"[*†‡§¶↑↓\s]*"
# One value, and what may stand beside it: its spread, a change, a mark.
_VALUE = re.compile(
    rf"{_MARKS}(?P<sign>[×x$€£]\s?)?(?P<number>{_NUMBER}(?:[eE][-+]?\d+)?)"
    rf"(?:{_POWER})?\s?{_UNIT}{_MARKS}"
    rf"(?:±\s?{_SPREAD}\s?%?)?{_MARKS}"
    rf"(?:\(\s*(?:±\s?(?P<inner>\d+(?:\.\d+)?)|(?P<note>[^()]{{1,24}}))\s*%?\))?{_MARKS}"
)
_NUMERIC = re.compile(r"\d")
_WORDS = re.compile(r"[^\s\d.,%±×x/()\[\]+\-−–—<>≤≥~*†‡$]")
_DASHES = {"-", "–", "—", "--"}
_NOTHING = {"", "-", "–", "—", "n/a", "na", "none", "oom", "✓", "✗", "×", "/"}
# A row that adds to the method above it.
_ADDED = re.compile(r"(?:[+＋↳∟└⊕]|&|w/o?(?!\w)|with(?:out)?\b|[-−–]\s)\s*\S")
MAX_HEAD_ROWS = 6
MAX_STUB_COLUMNS = 5


@dataclass(frozen=True)
class Value:
    """A number of a table in the words of the table.

    `row_label` joins the blocks and the first cells of its row, `head_path` the heads over its
    column, each from the outermost to the innermost.
    """

    cell: Cell
    value: Decimal
    unit: str
    spread: Decimal | None
    note: str  # what stands in brackets behind it: a change, a rank
    row_label: tuple[str, ...]
    head_path: tuple[str, ...]
    block: tuple[str, ...] = ()  # what names the block of rows; the label begins with it
    is_sure: bool = True  # that label and heads are its own: else only the cell is shown


def value_of(text: str) -> tuple[Decimal, str, Decimal | None, str] | None:
    """Value, unit, spread and note of a cell that holds one number; None for any other.

    Ranges, pairs, bounds and words are no value: "90–130", "0.5 / 1.6", "≤ 2", "OOM".
    """
    match = _VALUE.fullmatch(text)
    if match is None or not _NUMERIC.search(match["number"]):
        return None
    number = Decimal(match["number"].replace(",", "").replace("−", "-"))
    if match["power"]:
        if not match["times"] and number != 10:
            return None  # 2^10, or a note behind 85
        number = number if match["times"] else Decimal(1)
        number = number.scaleb(int(match["power"].replace("−", "-")))
    spread = match["spread"] or match["inner"]
    sign = (match["sign"] or "").strip()
    unit = "×" if "x" in {sign, match["unit"]} else sign or match["unit"] or ""
    return number, unit, Decimal(spread) if spread else None, (match["note"] or "").strip()


@dataclass(frozen=True)
class _Label:
    """The cells that label a row, and whether they are known to be its own."""

    texts: tuple[str, ...]
    is_sure: bool

    @property
    def base(self) -> str:
        """The method that the rows below may add to, or ""."""
        text = self.texts[0] if len(self.texts) == 1 else ""
        return "" if _ADDED.match(text) else text

    def added_to(self, base: str) -> "_Label":
        """The label with the method above it where it only says what is added to that."""
        is_added = base and len(self.texts) == 1 and _ADDED.match(self.texts[0])
        return replace(self, texts=(base, *self.texts)) if is_added else self


@dataclass(frozen=True)
class Table:
    """A grid whose head rows, first columns and blocks are known."""

    grid: Grid

    @cached_property
    def head_rows(self) -> int:
        """Number of rows in the head.

        It includes the rows that cells of the first row span, and rows without numbers below a head
        that spans columns. Consistent rules decide first: the head ends at the first line drawn
        across the whole row.
        """
        rows = self.grid.rows
        limit = min(len(rows) - 1, MAX_HEAD_ROWS)
        spanned = max((cell.row + cell.rows for cell in self.grid.distinct(0)), default=1)
        ruled = self._first_rule(limit)
        head = 1
        while head < limit:
            if self.is_block(head) or self._looks_like_values(head, ruled):
                break
            if head < spanned or (ruled is not None and head < ruled) or self._continues(head):
                head += 1
            else:
                break
        return head

    def _first_rule(self, limit: int) -> int | None:
        """Return the first row, after the top one, with a line over nearly all of its cells.

        None if most rows have one, since such lines separate nothing.
        """
        lines = [self._is_ruled(row) for row in range(1, len(self.grid.rows))]
        if sum(lines) > max(2, 0.6 * len(lines)):
            return None
        return next((row + 1 for row, line in enumerate(lines[:limit]) if line), None)

    def _is_ruled(self, row: int) -> bool:
        cells = [cell for cell in self.grid.rows[row] if cell is not None and cell.row == row]
        return (
            bool(cells)
            and len(cells) >= self.grid.width / 2
            and all(c.has_line_above for c in cells)
        )

    def is_block(self, row: int) -> bool:
        """True if the row holds a single label, which names the block of rows below it."""
        return bool(self._block_name(row))

    def _block_name(self, row: int) -> str:
        """Return a block's label, or ""; a dash before it is skipped, one after it is a value."""
        cells = self.grid.distinct(row)
        while len(cells) > 1 and cells[0].text in _DASHES and cells[0].column == 0:
            cells = cells[1:]
        if len(cells) != 1 or value_of(cells[0].text) is not None:
            return ""
        leads = not any(cell and cell.text for cell in self.grid.rows[row][1 : cells[0].column])
        is_unfinished = cells[0].column == 1 and cells[0].text in self._second_labels
        is_first = cells[0].column <= 1 and leads and not is_unfinished
        return cells[0].text if cells[0].columns > 1 or is_first else ""

    @cached_property
    def _second_labels(self) -> set[str]:
        """Texts of the second column that label rows with more cells."""
        rows = (row for row in range(len(self.grid.rows)) if len(self.grid.distinct(row)) > 2)
        cells = (self.grid.rows[row][1] for row in rows if self.grid.width > 1)
        return {cell.text for cell in cells if cell is not None}

    def _looks_like_values(self, row: int, ruled: int | None) -> bool:
        """True if a row is mostly numbers, counted after its first column unless above a rule."""
        if ruled is not None and row < ruled:
            cells = self.grid.distinct(row)
            is_numeric = sum(self._is_number(cell) for cell in cells) > len(cells) / 2
            is_value = row > 1 or self._is_whole_head()
            return is_numeric and is_value and not self._repeats_under_heads(row)
        cells = [cell for cell in self.grid.distinct(row) if cell.column > 0 and cell.row == row]
        filled = [cell for cell in cells if cell.text.lower() not in _NOTHING]
        return bool(filled) and sum(map(self._is_number, filled)) >= len(filled) / 2

    def _repeats_under_heads(self, row: int) -> bool:
        """True if a row has the same texts under each spanning head above it: 0%, 3%, 0%, 3%."""
        spanning = [cell for cell in self.grid.distinct(row - 1) if cell.columns > 1]
        texts = {
            tuple(
                cell.text if cell else ""
                for cell in self.grid.rows[row][head.column : head.column + head.columns]
            )
            for head in spanning
        }
        return len(spanning) > 1 and len(texts) == 1

    def _is_whole_head(self) -> bool:
        """True if every column has a head of its own in the first row, and none is a number."""
        cells = self.grid.distinct(0)
        return len(cells) == self.grid.width and not any(self._is_number(cell) for cell in cells)

    def _continues(self, row: int) -> bool:
        """True if a row without numbers subdivides the spanning heads of the row above it."""
        above = self.grid.distinct(row - 1)
        return any(cell.columns > 1 and cell.row == row - 1 for cell in above) and not any(
            self._is_number(cell) for cell in self.grid.distinct(row)
        )

    @staticmethod
    def _is_number(cell: Cell) -> bool:
        return value_of(cell.text) is not None or bool(
            re.fullmatch(
                r"[\s\d.,%±×x/()\[\]+\-−–—<>≤≥~*†‡]*\d[\s\d.,%±×x/()\[\]+\-−–—<>≤≥~*†‡]*", cell.text
            )
        )

    @cached_property
    def stubs(self) -> tuple[range, ...]:
        """Columns that label the rows; several ranges if tables stand side by side.

        They are the first columns that hold words, number the rows, or distinguish rows of the same
        name by whole numbers. A column that repeats the first head begins another table.
        """
        starts = [0]
        first = self.head_path(0)[-1:]
        starts += [
            column
            for column in range(1, self.grid.width)
            if first and self.head_path(column)[-1:] == first and self._is_wordy(column)
        ]
        ends = [*starts[1:], self.grid.width]
        return tuple(
            range(start, self._stub_end(start, end))
            for start, end in zip(starts, ends, strict=True)
        )

    def _stub_end(self, start: int, end: int) -> int:
        column = start + 1
        last = min(end - 1, start + MAX_STUB_COLUMNS)
        while column < last and not self._body(column - 1):
            column += 1  # a column that says nothing, before the labels
        # Numbers may stand before the names of the rows: "Layers", then "Model".
        labels_rows = self._is_wordy(column - 1) or self._counts(column - 1)
        if not labels_rows and not (column < last and self._is_wordy(column)):
            return column
        while column < last and (self._is_wordy(column) or self._tells_apart(start, column)):
            column += 1
        return column

    def _body(self, column: int) -> list[Cell]:
        """Return the cells of a column below the head that have text, blocks excluded."""
        rows = range(self.head_rows, len(self.grid.rows))
        cells = [self.grid.rows[row][column] for row in rows if not self.is_block(row)]
        return [cell for cell in cells if cell is not None and cell.text.lower() not in _NOTHING]

    def _is_wordy(self, column: int) -> bool:
        cells = self._body(column)
        numbers = sum(self._is_number(cell) for cell in cells)
        texts = {cell.text for cell in cells if not self._is_number(cell)}
        if numbers and len(texts) == 1:
            return False  # a word that stands for numbers that are not there: "pending"
        return bool(cells) and numbers <= len(cells) / 2

    def _is_whole(self, column: int) -> bool:
        """True if a column holds only whole numbers: horizons, sizes, shots."""
        return all(re.fullmatch(r"\d[\d,]*[KMBk]?", cell.text) for cell in self._body(column))

    def _counts(self, column: int) -> bool:
        """True if a column numbers the rows: 1, 2, 3."""
        return [cell.text for cell in self._body(column)][:3] == ["1", "2", "3"]

    def _tells_apart(self, start: int, column: int) -> bool:
        """True if a column of whole numbers separates rows that the columns from `start` do not.

        A column that is constant over the rows of one label holds values, not labels.
        """
        return self._is_whole(column) and len(self._labels(start, column)) < len(
            self._labels(start, column + 1)
        )

    def _labels(self, start: int, end: int) -> set[tuple[int | str, ...]]:
        """Return the rows' distinct labels in columns `start` to `end`, each with its block."""
        labels: set[tuple[int | str, ...]] = set()
        block = 0
        for row in range(self.head_rows, len(self.grid.rows)):
            block += self.is_block(row)
            cells = self.grid.rows[row][start:end]
            labels.add((block, *(cell.text if cell else "" for cell in cells)))
        return labels

    @cached_property
    def _beside_blocks(self) -> set[int]:
        """Rows of values that begin with a dash as blocks' rows do, if under half do."""
        rows = [row for row in range(self.head_rows, len(self.grid.rows)) if not self.is_block(row)]
        firsts = [(row, self.grid.rows[row][0]) for row in rows]
        dashed = {row for row, cell in firsts if cell is not None and cell.text in _DASHES}
        return dashed if len(dashed) < len(rows) / 2 else set()

    @property
    def stub_heads(self) -> tuple[str, ...]:
        """Innermost head of each column of row labels: "Method", "Dataset"."""
        return tuple(text for c in self.stubs[0] for text in self.head_path(c)[-1:])

    @cached_property
    def values(self) -> list[Value]:
        """Every single number of the body in reading order; a spanning cell counts once."""
        return list(self._values())

    def _values(self) -> Iterator[Value]:
        block: tuple[str, ...] = ()
        bases: dict[int, str] = {}  # what rows of "+ X" add to, for each table side by side
        has_block = True  # no rule has ended the block since its name
        head = [self.head_path(column) for column in range(self.grid.width)]
        for row in range(self.head_rows, len(self.grid.rows)):
            if self.is_block(row):
                block, bases, has_block = (self._block_name(row),), {}, True
                continue
            if self._is_second_head(row):
                head = [
                    (cell.text,) if cell is not None and cell.text else ()
                    for cell in self.grid.rows[row]
                ]
                block, bases = (), {}
                continue
            if row in self._beside_blocks:
                block = ()
            ends = block and self._is_ruled(row) and not self.is_block(row - 1)
            has_block = has_block and not ends if block else True
            for columns, label in self._labelled(row):
                whole = label if block else label.added_to(bases.get(columns.start, ""))
                if whole is label:
                    bases[columns.start] = label.base
                whole = replace(whole, is_sure=whole.is_sure and has_block)
                yield from self._values_between(row, columns, block, whole, head)

    def _values_between(
        self,
        row: int,
        columns: range,
        block: tuple[str, ...],
        label: "_Label",
        head: list[tuple[str, ...]],
    ) -> Iterator[Value]:
        for column in columns:
            cell = self.grid.rows[row][column]
            if cell is None or (cell.row, cell.column) != (row, column):
                continue
            read = value_of(cell.text)
            if read is not None:
                is_sure = label.is_sure and bool(head[column]) and bool(label.texts)
                yield Value(cell, *read, block + label.texts, head[column], block, is_sure)

    def _is_second_head(self, row: int) -> bool:
        """True if a row in the body is another head: no numbers, and a rule or repeated heads."""
        cells = self.grid.distinct(row)
        if len(cells) < 3 or any(self._is_number(cell) for cell in cells):
            return False
        first = [cell.text for cell in self.grid.distinct(0)]
        repeats = sum(cell.text in first for cell in cells) >= len(cells) / 2
        filled = [cell for cell in cells if cell.text.lower() not in _NOTHING]
        return len(filled) == len(cells) and (repeats or self._is_ruled(row))

    def head_path(self, column: int) -> tuple[str, ...]:
        """Return the heads over a column, from the top; a cell that spans rows counts once."""
        path: list[str] = []
        for row in range(self.head_rows):
            cell = self.grid.rows[row][column]
            if cell is not None and cell.row == row and cell.text.lower() not in _NOTHING:
                path.append(cell.text)
        return tuple(text for i, text in enumerate(path) if i == 0 or text != path[i - 1])

    def _labelled(self, row: int) -> Iterator[tuple[range, "_Label"]]:
        """Yield a row's ranges of value columns, each with the row's label in its part."""
        ends = [stub.start for stub in self.stubs[1:]] + [self.grid.width]
        for stub, end in zip(self.stubs, ends, strict=True):
            cells = [*self.grid.rows[row][stub.start : stub.stop]]
            is_sure = True
            if len(stub) > 1 and cells[1] and cells[1].text:
                cells[0], is_sure = self._group_of(row, stub.start)
            texts = [cell.text for cell in cells if cell and cell.text.lower() not in _NOTHING]
            label = tuple(text for i, text in enumerate(texts) if i == 0 or text != texts[i - 1])
            yield range(stub.stop, end), _Label(label, is_sure)

    def _group_of(self, row: int, column: int) -> tuple[Cell | None, bool]:
        """Return the label of a row's group, and whether it is certain.

        It is the label in the row's own first cell, or the nearest one above. If the group's first
        row has none, the only label between two rules applies to all its rows. A label written over
        two rows, "Chat &" and "Search" below it, is one.
        """
        first = self.grid.rows[row][column]
        rows = self._between(row, self._is_ruled)
        labels = self._texts(rows, column)
        if labels and rows.start not in labels:
            only = {(cell.row, cell.column): cell for cell in labels.values()}
            for cell in only.values() if len(only) == 1 else ():
                if abs(2 * cell.row + cell.rows - rows.start - rows.stop) <= 1:
                    return cell, True
            return first, False
        if not labels:
            rows = self._between(row, self.is_block)
            labels = self._texts(rows, column)
            if rows.start not in labels:
                return first, not labels
        above = max(r for r in labels if r <= row)
        below = self.grid.rows[above + 1][column] if above + 1 < len(self.grid.rows) else None
        label = labels[above]
        if label.text.endswith("&") and below is not None and below.text:
            return replace(label, text=f"{label.text} {below.text}"), True
        if above - 1 in labels and labels[above - 1].text.endswith("&"):
            return replace(label, text=f"{labels[above - 1].text} {label.text}"), True
        return label, True

    def _texts(self, rows: range, column: int) -> dict[int, Cell]:
        """Return the non-empty cells of a column, by row."""
        cells = ((row, self.grid.rows[row][column]) for row in rows)
        return {
            row: cell
            for row, cell in cells
            if cell is not None and cell.text and cell.row >= self.head_rows
        }

    def _between(self, row: int, ends: Callable[[int], bool]) -> range:
        """Return the rows around a row, from one for which `ends` is true to before the next."""
        first, last = row, row + 1
        while first > self.head_rows and not ends(first) and not self.is_block(first - 1):
            first -= 1
        while last < len(self.grid.rows) and not ends(last) and not self.is_block(last):
            last += 1
        return range(first, last)

    def markdown(self) -> str:
        """Return the table in Markdown under a single row of heads, spanning cells filled in."""
        paths = [" / ".join(self.head_path(column)) for column in range(self.grid.width)]
        lines = [_row(paths), _row(["---"] * self.grid.width)]
        for row in range(self.head_rows, len(self.grid.rows)):
            cells = self.grid.rows[row]
            if self.is_block(row):
                lines.append(_row([self._block_name(row)]))
            else:
                lines.append(_row([cell.text if cell is not None else "" for cell in cells]))
        return "\n".join(lines)


def _row(texts: list[str]) -> str:
    return "| " + " | ".join(text.replace("|", "¦") for text in texts) + " |"

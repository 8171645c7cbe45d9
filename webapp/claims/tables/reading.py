"""Structure of a table: its head, its row labels, and each number under both.

Values are safe and names are hard: a value stands under "row label × head path", in the table's own
words, and is given a metric or a data set only where one of them names it (`names`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import islice

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
# Numbers and the signs between them: "0.5 / 1.6", "75 to 191".
_NUMBERS = re.compile(r"(?=\D*\d)(?:[\s\d.,%±×x/()\[\]+\-−–—<>≤≥~*†‡]|(?<=\d )to(?= \d))+")
_WORDS = re.compile(r"[^\s\d.,%±×x/()\[\]+\-−–—<>≤≥~*†‡$]")
_DASHES = {"-", "–", "—", "--"}
_NOTHING = {"", "-", "–", "—", "n/a", "na", "none", "oom", "✓", "✗", "×", "/"}
# A row that adds to the method above it, and one that leaves something out.
_ADDED = re.compile(r"(?:[+＋↳∟└⊕]|&|w/o?(?!\w)|with(?:out)?\b|[-−–]\s)\s*\S")
_TAKEN = re.compile(r"w/?o(?!\w)|without\b|[-−–]\s*(?!w/?(?!o))\S")
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
    height: int  # rows that it stands beside

    @property
    def is_numeric(self) -> bool:
        """True if it consists of numbers."""
        return all(value_of(text) for text in self.texts)


@dataclass
class _Base:
    """The method above rows such as "+ X" and "w/o X"."""

    text: str = ""
    is_extended: bool = False  # by a row "+ X": then it is open what a row "w/o Y" leaves out

    def of(self, label: _Label) -> _Label:
        """Return a row's label, with the method above where it only says what is added to that."""
        if len(label.texts) != 1 or not _ADDED.match(label.texts[0]):
            self.text, self.is_extended = label.texts[0] if len(label.texts) == 1 else "", False
            return label
        is_taken = bool(_TAKEN.match(label.texts[0]))
        is_open = is_taken and self.is_extended
        self.is_extended = self.is_extended or not is_taken
        if not self.text or is_open:
            return label
        return replace(label, texts=(self.text, *label.texts))


@dataclass(frozen=True)
class _LabelledRow:
    """A row of the body between the columns of one table, with its label and heads."""

    index: int
    columns: range
    block: tuple[str, ...]
    label: _Label
    head: list[tuple[str, ...]]

    @property
    def part(self) -> tuple[int, int]:
        """The rows and columns under the same heads, in which a label names one row."""
        return id(self.head), self.columns.start

    @property
    def key(self) -> tuple[object, ...]:
        """The part and the label, which no other row should have."""
        return (*self.part, self.label.texts)


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
        return bool(self._blocks[row])

    @cached_property
    def _blocks(self) -> list[str]:
        """The labels of rows that name a block, "" for the others."""
        return [self._block_name(row) for row in range(len(self.grid.rows))]

    def _block_name(self, row: int) -> str:
        """Return a block's label, or ""; a dash before it is skipped, one after it is a value."""
        cells = self.grid.distinct(row)
        while len(cells) > 1 and cells[0].text in _DASHES and cells[0].column == 0:
            cells = cells[1:]
        if len(cells) != 1 or value_of(cells[0].text) is not None:
            return ""
        leads = not any(cell and cell.text for cell in self.grid.rows[row][1 : cells[0].column])
        is_unfinished = cells[0].column == 1 and cells[0].text in self._second_labels
        is_unfinished = is_unfinished or bool(_ADDED.match(cells[0].text))
        is_first = cells[0].column <= 1 and leads and not is_unfinished
        return cells[0].text if cells[0].columns > 1 or is_first else ""

    def _is_sure_block(self, row: int) -> bool:
        """True if a block's label is set apart: else the row may be one without its values."""
        cell = self.grid.distinct(row)[-1]
        is_first = row == self.head_rows or self.is_block(row - 1) or self._is_ruled(row)
        below = self.grid.distinct(row + 1)[:1] if row + 1 < len(self.grid.rows) else []
        is_listed = bool(below and _ADDED.match(below[0].text))
        return cell.columns > 1 or cell.is_bold or is_first or is_listed

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
        return value_of(cell.text) is not None or bool(_NUMBERS.fullmatch(cell.text))

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
        """True if a column of numbers separates rows that the columns from `start` do not.

        The numbers are whole, or the same for each label: 0.1, 0.2, 0.1, 0.2. A column that is
        constant over the rows of one label holds values, not labels.
        """
        columns = range(start, column)
        is_setting = self._is_whole(column) or self._is_grid(columns, column)
        return is_setting and self._separates(columns, column)

    def _is_grid(self, columns: range, column: int) -> bool:
        """True if each of several labels has a row for each of several texts of a column."""
        labels, texts = self._labels(*columns), {cell.text for cell in self._body(column)}
        rows = sum(not self.is_block(row) for row in range(self.head_rows, len(self.grid.rows)))
        is_whole = len(self._labels(*columns, column)) == rows == len(labels) * len(texts)
        return is_whole and min(len(labels), len(texts)) > 1

    def _separates(self, columns: range, column: int) -> bool:
        """True if a column tells apart rows that have the same texts in some other columns."""
        return len(self._labels(*columns)) < len(self._labels(*columns, column))

    def _label_columns(self, stub: range, end: int) -> list[int]:
        """Return the columns of row labels, and one of words behind numbers if labels repeat."""
        behind = (c for c in range(stub.stop, end - 1) if self._is_wordy(c))
        return [*stub, *(c for c in islice(behind, 1) if self._separates(stub, c))]

    def _labels(self, *columns: int) -> set[tuple[int | str, ...]]:
        """Return the rows' distinct texts in some columns, each with its block."""
        labels: set[tuple[int | str, ...]] = set()
        block = 0
        for row in range(self.head_rows, len(self.grid.rows)):
            block += self.is_block(row)
            cells = [self.grid.rows[row][column] for column in columns]
            labels.add((block, *(cell.text if cell else "" for cell in cells)))
        return labels

    @cached_property
    def _beside_blocks(self) -> set[int]:
        """Rows of values that begin with a dash as blocks' rows do, if under half do."""
        rows = [row for row in range(self.head_rows, len(self.grid.rows)) if not self.is_block(row)]
        firsts = [(row, self.grid.rows[row][0]) for row in rows]
        dashed = {row for row, cell in firsts if cell is not None and cell.text in _DASHES}
        return dashed if len(dashed) < len(rows) / 2 else set()

    @cached_property
    def values(self) -> list[Value]:
        """Every single number of the body in reading order; a spanning cell counts once.

        A label or head that stands for several rows or columns is not certain to be a value's own.
        """
        rows = list(self._rows())
        counts = Counter(row.key for row in rows)
        # Numbers that label two rows are one setting of several, and the others look like values.
        unclear = {row.part for row in rows if counts[row.key] > 1 and row.label.is_numeric}
        values = list[Value]()
        for row in rows:
            is_unclear = row.label.is_numeric and row.part in unclear
            values += self._values_of(row, is_single=counts[row.key] == 1 and not is_unclear)
        places = Counter((value.row_label, value.head_path) for value in values)
        return [
            value
            if places[value.row_label, value.head_path] == 1
            else replace(value, is_sure=False)
            for value in values
        ]

    def _rows(self) -> Iterator["_LabelledRow"]:
        """Yield the rows of the body with their labels, one for each table side by side."""
        block: tuple[str, ...] = ()
        bases: dict[int, _Base] = {}  # of each table side by side
        has_block = True  # no rule has ended the block since its name
        head = [self.head_path(column) for column in range(self.grid.width)]
        is_only = len(self.grid.rows) == self.head_rows + 1
        for row in range(self.head_rows, len(self.grid.rows)):
            if self.is_block(row):
                block, bases, has_block = (self._blocks[row],), {}, self._is_sure_block(row)
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
            has_block = (has_block and not ends) if block else True
            for columns, label in self._labelled(row):
                bases.setdefault(columns.start, _Base())
                whole = label if block else bases[columns.start].of(label)
                is_named = bool(whole.texts) and not (is_only and whole.is_numeric)
                is_sure = whole.is_sure and has_block and is_named
                whole = replace(whole, texts=block + whole.texts, is_sure=is_sure)
                yield _LabelledRow(row, columns, block, whole, head)

    def _values_of(self, row: "_LabelledRow", *, is_single: bool) -> Iterator[Value]:
        for column in row.columns:
            cell = self.grid.rows[row.index][column]
            if cell is None or (cell.row, cell.column) != (row.index, column):
                continue
            read = value_of(cell.text)
            if read is not None:
                is_of_row = row.label.is_sure and cell.rows <= row.label.height
                is_sure = is_single and is_of_row and bool(row.head[column])
                texts = row.label.texts
                yield Value(cell, *read, texts, row.head[column], row.block, is_sure)

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

    @cached_property
    def _sides(self) -> list[tuple[range, int, list[int]]]:
        """Return the stub, the end and the columns of row labels of each table side by side."""
        ends = [stub.start for stub in self.stubs[1:]] + [self.grid.width]
        return [
            (stub, end, self._label_columns(stub, end))
            for stub, end in zip(self.stubs, ends, strict=True)
        ]

    def _labelled(self, row: int) -> Iterator[tuple[range, "_Label"]]:
        """Yield a row's ranges of value columns, each with the row's label in its part."""
        for stub, end, columns in self._sides:
            cells = [self.grid.rows[row][column] for column in columns]
            named = [cell for cell in cells if cell and cell.text.lower() not in _NOTHING]
            is_sure = bool(named) and named[-1].row == row  # else it names the rows above as well
            if len(cells) > 1 and cells[1] and cells[1].text:
                cells[0], is_of_group = self._group_of(row, stub.start)
                is_sure = is_sure and is_of_group
            texts = [cell.text for cell in cells if cell and cell.text.lower() not in _NOTHING]
            label = tuple(text for i, text in enumerate(texts) if i == 0 or text != texts[i - 1])
            height = named[-1].rows if named else 0
            yield range(stub.stop, end), _Label(label, is_sure, height)

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
                lines.append(_row([self._blocks[row]]))
            else:
                lines.append(_row([cell.text if cell is not None else "" for cell in cells]))
        return "\n".join(lines)


def _row(texts: list[str]) -> str:
    return "| " + " | ".join(text.replace("|", "¦") for text in texts) + " |"

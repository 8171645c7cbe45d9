"""Check of a claimed number against the cells of a paper's tables.

A cell that holds the number under a certain row and head decides what the number belongs to. The
claim is refuted if the number stands only in other rows or under other heads, and the claim's own
row and column hold another number.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from webapp.core.tables import table

from .metrics import direction
from .own import is_own
from .reading import Value
from .shown import ShownTable

_WORD = re.compile(r"[^\W_]+(?:\.\d+)*")
_COMMON = frozenset(table(__file__, "metrics.toml")["common"])
_OURS = re.compile(r"\b(?:ours?|we|proposed|this (?:paper|work))\b", re.IGNORECASE)
# Words for a difference, which the cells do not hold.
_CHANGE = re.compile(
    r"improv|gain|reduc|increas|decreas|drop|speed-?up|faster|slower|relative|points?\b|lead\b|"
    r"margin|difference|times\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ClaimedCell:
    """A claimed number, with its subject, its topic, and the quoted text."""

    value: Decimal
    subject: str
    about: str  # metric and setting
    quote: str


@dataclass(frozen=True)
class Judgement:
    """Verdict on a claim: confirmed by a cell, refuted by the cell in `otherwise`, or neither."""

    is_confirmed: bool = False
    otherwise: str = ""


@dataclass(frozen=True)
class _Cell:
    """A value in its table, compared with a claim."""

    claim: ClaimedCell
    shown: ShownTable
    value: Value

    def is_of_subject(self) -> bool:
        """True if the row label or the heads name the claim's subject, or may stand for it."""
        subject = words(self.claim.subject)
        if not self.claim.subject.strip():
            return True
        if _is_own(self.claim.subject, self.shown.names):
            return (
                self.shown.is_own(self.value)
                or not self.shown.has_own
                or bool(subject and subject <= self._words)
            )
        return bool(subject & self._words) and not self._names_other_row()

    def names_row(self) -> bool:
        """True if the row is the claim's subject itself rather than a variant of it."""
        if _is_own(self.claim.subject, self.shown.names):
            return self.shown.is_own(self.value)
        return words(self.value.row_label[-1]) == words(self.claim.subject)

    def gives(self) -> bool:
        """True if the row and heads of the cell state the whole claim, and no other cell does."""
        subject, about = words(self.claim.subject), words(self.claim.about)
        claimed = subject | about
        if not subject and not self.claim.subject.strip():
            return False
        innermost = words(" ".join(self.value.row_label[-1:]))
        caption = words(self.shown.table.grid.caption)
        is_of_row = (self.names_row() or subject <= self._words | caption) and (
            innermost <= claimed or self.shown.is_own(self.value)
        )
        heads = [words(text) for text in self.value.head_path]
        is_of_column = any(head & claimed for head in heads if head)
        labels = (words(text) for v in self.shown.table.values for text in self._labels(v))
        elsewhere = frozenset[str]().union(*labels) - self._words
        return is_of_row and is_of_column and not about & elsewhere and not self._names_other_row()

    @staticmethod
    def _labels(value: Value) -> tuple[str, ...]:
        return (*value.row_label, *value.head_path)

    def _names_other_row(self) -> bool:
        """True if another row names the whole subject and this one does not."""
        subject = words(self.claim.subject)
        innermost = [words(text) for text in self._names(self.value)]
        return not any(name and name <= subject for name in innermost) and any(
            name and name <= subject
            for other in self._neighbours()
            for name in map(words, self._names(other))
        )

    @property
    def _words(self) -> frozenset[str]:
        return words(" ".join((*self.value.row_label, *self.value.head_path)))

    @staticmethod
    def _names(value: Value) -> tuple[str, ...]:
        return (*value.row_label[-1:], *value.head_path)

    def _neighbours(self) -> Iterator[Value]:
        """Yield the other values in its column and row."""
        for other in self.shown.table.values:
            if other.is_sure and other.cell != self.value.cell and other.value != self.value.value:
                in_column = other.cell.column == self.value.cell.column
                if in_column or other.cell.row == self.value.cell.row:
                    yield other

    def is_refuted(self) -> bool:
        """True if another number beside this one fits the claim better, by subject or heads."""
        if not self.is_of_subject():
            return self._is_about() and any(map(self._belongs_to_subject, self._neighbours()))
        about = words(self.claim.about)
        path = {text for text in self.value.head_path if words(text)}
        if any(words(text) & about for text in path):
            return False
        others = (
            {text for text in other.head_path if text not in path}
            for other in self._neighbours()
            if other.cell.row == self.value.cell.row
        )
        return any(any(words(text) and words(text) <= about for text in texts) for texts in others)

    def _belongs_to_subject(self, other: Value) -> bool:
        if _is_own(self.claim.subject, self.shown.names):
            return self.shown.is_own(other)
        subject = words(self.claim.subject)
        return any(name and name <= subject for name in map(words, self._names(other)))

    def _is_about(self) -> bool:
        """True if the claim may refer to this cell: it quotes the row or shares its words."""
        quoted = words(self.claim.quote)
        if "|" in self.claim.quote:
            return True
        if _CHANGE.search(self.claim.about):
            return False
        label = words(" ".join(self.value.row_label[-1:]))
        subject = words(self.claim.subject)
        is_said_so = quoted & subject or (_OURS.search(self.claim.quote) and not label & quoted)
        caption = words(self.shown.table.grid.caption)
        shared = words(self.claim.about) & (self._words | caption)
        return bool(shared) and not (is_said_so and not label & quoted)

    def __str__(self) -> str:
        path = " × ".join((" / ".join(self.value.row_label), " / ".join(self.value.head_path)))
        return f"{self.shown.title or 'Table'}: {path} = {self.value.cell.text}"


def judge(claim: ClaimedCell, tables: Sequence[ShownTable]) -> Judgement:
    """Check a claim against a paper's tables; empty if no certain cell holds its number."""
    cells = [
        _Cell(claim, shown, value)
        for shown in tables
        for value in shown.table.values
        if value.is_sure and abs(value.value) == abs(claim.value)
    ]
    refuted = [cell for cell in cells if cell.is_refuted()]
    if any(cell not in refuted and cell.is_of_subject() for cell in cells):
        return Judgement(is_confirmed=True)
    return Judgement(otherwise=str(refuted[0])) if refuted else Judgement()


def gives_cell(claim: ClaimedCell, tables: Sequence[ShownTable]) -> bool:
    """True if a single cell states the whole claim: its number, its row and its heads."""
    return any(
        _Cell(claim, shown, value).gives()
        for shown in tables
        for value in shown.table.values
        if value.is_sure and value.value == claim.value
    )


def lost_to(winner: str, loser: str, about: str, tables: Sequence[ShownTable]) -> str:
    """Return a cell that shows `loser` ahead of `winner` in every comparison, or "".

    If heads of some columns are in `about`, only those columns are compared.
    """
    pairs = [
        pair
        for shown in tables
        for pair in _compared(shown, winner, loser)
        if direction(pair[0].value.head_path)
    ]
    named = [pair for pair in pairs if _heads(pair[0].value) & words(about)]
    losses = [
        other
        for cell, other in named or pairs
        if (cell.value.value < other.value.value) == (direction(cell.value.head_path) == "higher")
        and cell.value.value != other.value.value
    ]
    return str(losses[0]) if losses and len(losses) == len(named or pairs) else ""


def _heads(value: Value) -> frozenset[str]:
    return words(" ".join(value.head_path))


def _compared(shown: ShownTable, first: str, second: str) -> Iterator[tuple[_Cell, _Cell]]:
    """Yield the values of two methods in the same columns, if each names a single row."""
    rows: list[dict[int, _Cell]] = []
    for name in (first, second):
        claim = ClaimedCell(Decimal(0), name, "", "")
        cells = [_Cell(claim, shown, value) for value in shown.table.values if value.is_sure]
        named = [cell for cell in cells if cell.names_row()]
        if len({cell.value.cell.row for cell in named}) != 1:
            return
        rows.append({cell.value.cell.column: cell for cell in named})
    for column in rows[0].keys() & rows[1].keys():
        if rows[0][column].value.cell.row != rows[1][column].value.cell.row:
            yield rows[0][column], rows[1][column]


def words(text: str) -> frozenset[str]:
    """Return the distinctive words of a label, head or claim."""
    return frozenset(_WORD.findall(text.casefold())) - _COMMON


def _is_own(subject: str, names: Sequence[str]) -> bool:
    return not words(subject) or bool(_OURS.search(subject)) or is_own([subject], names)

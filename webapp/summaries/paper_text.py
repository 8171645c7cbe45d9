"""A paper's text as claims are checked against it: its sections, and the words around a place."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from webapp.claims.grounding import Grounding, GroundingState, GroundTruth
from webapp.claims.numbers import fold, numbers, unit_named
from webapp.claims.tables.own import proposed_names

NEAR = 300  # characters on either side of a quote whose words are about the same
MAX_TABLE = 6_000  # characters of a table that are looked at around one of its rows
_UNIT = re.compile(r"[^\s()\[\],;:]+")


class PaperText(GroundTruth):
    """Title, abstract and sections, folded once; each place knows its section and surroundings."""

    def __init__(self, title: str, abstract: str, sections: Iterable[tuple[str, str]]) -> None:
        parts = [("Abstract", f"{title}\n{abstract}")]
        parts += [(name, f"{name}\n{text}".strip()) for name, text in sections]
        self.own_names = proposed_names(title, abstract)
        self._titles = [name for name, _ in parts]
        self._starts: list[int] = []
        length = 0
        for _, text in parts:
            self._starts.append(length)
            length += len(text) + 2
        heads = [title, *(name for name, _ in parts[1:])]
        self._bodies = [start + len(head) for start, head in zip(self._starts, heads, strict=True)]
        self.original = "\n\n".join(text for _, text in parts)
        super().__init__(self.original)

    def section_at(self, start: int) -> str:
        """The title of the section with this folded character."""
        place, _ = self.folded.place(start, start + 1)
        return self._titles[bisect_right(self._starts, place) - 1]

    def body_at(self, start: int) -> int:
        """The first folded character of the text under the title of a place's section."""
        place, _ = self.folded.place(start, start + 1)
        section = bisect_right(self._starts, place) - 1
        return self._folded_at(self._bodies[section])

    def around(self, start: int, end: int) -> tuple[int, int]:
        """The folded characters that are about the same as those at `start:end`.

        Some on either side; of a table, marked by its bars, all rows and the lines next to them.
        """
        near = max(0, start - NEAR), min(len(self.folded.text), end + NEAR)
        line = self._line_at(start)
        if not self._is_row(line):
            return near
        first = last = line
        while first > 0 and self._is_row(first - 1):
            first -= 1
        while last + 1 < len(self._lines) and self._is_row(last + 1):
            last += 1
        first, last = max(0, first - 2), min(len(self._lines) - 1, last + 2)  # its caption
        table = self._folded_at(self._lines[first][0]), self._folded_at(self._lines[last][1])
        return (
            max(min(near[0], table[0]), start - MAX_TABLE),
            min(max(near[1], table[1]), end + MAX_TABLE),
        )

    def ground(self, value: str, unit: str, quote: str) -> Grounding:
        """Ground as in any text; in a row of a table, a unit may stand in the head of its cell."""
        grounding = super().ground(value, unit, quote)
        if grounding.state is not GroundingState.NUMBER:
            return grounding
        rows = (
            line
            for start, end in self.places_of(quote)
            for line in range(self._line_at(start), self._line_at(end - 1) + 1)
        )
        says = any(self._head_says(value, unit, row) for row in rows if self._is_row(row))
        return replace(grounding, state=GroundingState.UNIT, reason="") if says else grounding

    def _head_says(self, value: str, unit: str, line: int) -> bool:
        """True if the value's cell in a row is under a head with its unit."""
        first = line
        while first > 0 and self._is_row(first - 1):
            first -= 1
        values, name = [abs(n.value) for n in numbers(value)], unit_named(fold(unit))
        for head, cell in zip(self._cells(first), self._cells(line), strict=False):
            named = {unit_named(written) for written in _UNIT.findall(head)}
            has_unit = name in named if name else fold(unit) in head
            if line > first and has_unit and [abs(n.value) for n in numbers(cell)][:1] == values:
                return True
        return False

    def _cells(self, line: int) -> list[str]:
        """The folded cells of a row."""
        start, end = self._lines[line]
        return [fold(cell) for cell in self.original[start:end].split(" | ")]

    def is_in_table(self, start: int) -> bool:
        """True if a folded character is in a row of a table."""
        return self._is_row(self._line_at(start))

    @cached_property
    def _lines(self) -> list[tuple[int, int]]:
        """Start and end of each line of the original text that is not empty."""
        lines, start = [], 0
        for line in self.original.split("\n"):
            if line.strip():
                lines.append((start, start + len(line)))
            start += len(line) + 1
        return lines

    def _line_at(self, start: int) -> int:
        place, _ = self.folded.place(start, start + 1)
        return max(0, bisect_right(self._lines, (place, len(self.original))) - 1)

    def _is_row(self, line: int) -> bool:
        start, end = self._lines[line]
        return self.original[start:end].count(" | ") >= 1

    def _folded_at(self, place: int) -> int:
        """The folded character at, or just behind, a place of the original."""
        places = self.folded.places
        return bisect_left(places, (place, place), hi=len(places))

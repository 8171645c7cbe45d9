"""A number of a text, however it is written."""

from dataclasses import dataclass, replace
from decimal import Decimal


@dataclass(frozen=True)
class Number:
    """A number at `start:end` of a folded text, its unit ("" if none is known) included.

    `unit` may be taken from the next number: both ends of "2 to 3 ms" are milliseconds.
    """

    value: Decimal
    unit: str
    start: int
    end: int
    digits_end: int  # where the figures end, before magnitude, spread and unit
    is_size: bool = False  # a side of 256x256
    is_word: bool = False
    is_spread: bool = False  # what stands behind ±
    own_unit: bool = False  # the unit is written at this very number
    same: tuple[tuple[Decimal, str], ...] = ()  # other values and units that say this

    def moved(self, by: int) -> "Number":
        """Return the number in a text that begins so many characters earlier, or later below 0."""
        start, end, digits_end = self.start + by, self.end + by, self.digits_end + by
        return replace(self, start=start, end=end, digits_end=digits_end)

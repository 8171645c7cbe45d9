"""Does a claim stand in the paper? The quote must be in the text, and the value in the quote.

A model may invent a number, or a quote, or cut a true quote so that 23.52 reads 3.5. So the
quote is looked up in the folded text, widened to whole words *of the text*, and the value is
compared with the numbers that stand there, never with what the model says stands there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from .folding import fold
from .numbers import Number, numbers, unit_name

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
MIN_QUOTE_WORDS = 3
MAX_QUOTE = 1000  # characters: a quote is a sentence or two, not the paper


@dataclass(frozen=True)
class Grounding:
    """The finding: whether the claim stands, and otherwise why not, in words."""

    verified: bool
    reason: str = ""


class GroundTruth:
    """A paper's text, folded once, against which claims and numbers are held."""

    def __init__(self, text: str) -> None:
        self._text = fold(text)

    @cached_property
    def _values(self) -> frozenset[Decimal]:
        words = set(re.findall(r"[a-z]+", self._text))
        return frozenset(abs(n.value) for n in numbers(self._text)) | {
            Decimal(n) for n, word in enumerate(_SMALL) if word in words
        }

    def holds_number(self, written: str) -> bool:
        """Whether every number in `written` stands somewhere in the text, as figures or a word."""
        return all(abs(n.value) in self._values for n in numbers(fold(written)))

    def ground(self, value: str, unit: str, quote: str) -> Grounding:
        """Hold one claim against the text.

        `value` is as the model wrote it ("3.5", "74.97 -> 79.66", "2-3"), `unit` may be empty.
        """
        claimed = list(numbers(fold(value)))
        if not claimed:
            return Grounding(False, "the value is not a number")
        folded = fold(quote)
        if len(folded) > MAX_QUOTE:
            return Grounding(False, f"the quote is longer than {MAX_QUOTE} characters")
        if len(re.findall(r"\w+", folded)) < MIN_QUOTE_WORDS:
            return Grounding(False, "the quote is too short to be found again")
        places = self._places(folded)
        if not places:
            return Grounding(False, "the quote does not stand in the text")
        for place in places:
            if self._agrees(claimed, unit_name(unit), list(numbers(place))):
                return Grounding(True)
        return Grounding(False, "the value does not stand in the quote")

    def _places(self, quote: str) -> list[str]:
        """Where the quote stands, each widened to whole words and the unit that follows."""
        places: list[str] = []
        start = self._text.find(quote)
        while start >= 0 and len(places) < 20:
            end = start + len(quote)
            left = self._text.rfind(" ", 0, start) + 1
            right = self._text.find(" ", end)
            right = len(self._text) if right < 0 else right
            # Only a number at the edge can have been cut; else the quote's own edges are right.
            cut_left = start > 0 and not self._text[start - 1].isspace()
            cut_right = end < len(self._text) and not self._text[end].isspace()
            widened = self._text[left if cut_left else start : right if cut_right else end]
            unit = re.match(r" (?:%|x\b|[a-zμ/%]{1,12}(?: points)?)", self._text[right:])
            places.append(widened + (unit[0] if unit and widened[-1:].isdigit() else ""))
            start = self._text.find(quote, start + 1)
        return places

    @staticmethod
    def _agrees(claimed: list[Number], unit: str, standing: list[Number]) -> bool:
        """Every claimed number stands there, in the claimed order, under no other unit."""
        at = 0
        for number in claimed:
            want = number.unit or (unit if number is claimed[-1] else "")
            for at_now in range(at, len(standing)):
                found = standing[at_now]
                if found.value == number.value and _compatible(want, found.unit):
                    at = at_now + 1
                    break
            else:
                return False
        return True


def _compatible(claimed: str, standing: str) -> bool:
    """Whether a claimed unit can be meant where `standing` is written (tables write none)."""
    if not standing or not claimed:
        return True
    return claimed == standing or {claimed, standing} == {"%", "points"}

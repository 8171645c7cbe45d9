"""The numbers of a text as a reader takes them: single, a range, or a change from A to B."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from webapp.claims.numbers import SIZES, TIMES, Folded, Number, numbers_in

_RANGE = re.compile(r" ?(?:-|to|->) ?")
_FROM = re.compile(r"(?:from |从)$")
# "from 12 minutes, up to 95%" is no change
_TO = re.compile(
    r"^(?!.*(?:[.;]|, up) ).* to (?:as (?:high|low) as |just |only )?$|^[^。，；,;]{0,8}[到至为]$"
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_CHANGE_REACH = 70  # characters between the two ends of "from 0.535 (scattering only) to 0.685"


@dataclass(frozen=True)
class Expression:
    """A number, a range or a change in a folded text; `start:end` holds its units and "from"."""

    numbers: tuple[Number, ...]
    is_change: bool
    start: int
    end: int

    @property
    def unit(self) -> str:
        """The canonical unit, "" for none."""
        return self.numbers[-1].unit


def expressions(folded: Folded) -> Iterator[Expression]:
    """The numbers of a folded text, ranges and changes joined."""
    text = folded.text
    left = [n for n in numbers_in(folded) if not n.is_spread and not n.is_size]
    while left:
        first = left.pop(0)
        start = first.start
        after_from = _FROM.search(text, 0, start)
        are_digits = left and not (first.is_word or left[0].is_word)
        if are_digits and (joint := text[first.end : left[0].start]):
            in_reach = len(joint) <= _CHANGE_REACH and _TO.search(joint)
            if after_from and in_reach and _are_comparable(first, left[0]):
                yield Expression((first, left[0]), True, after_from.start(), left.pop(0).end)
                continue
            is_range = _RANGE.fullmatch(joint) or (
                joint == " and " and text.endswith("between ", 0, start)
            )
            is_range = is_range and _are_comparable(first, left[0])
            if is_range and (first.unit == left[0].unit or not first.own_unit):
                falls = joint.endswith("to ") and first.value > left[0].value
                change = "->" in joint or falls
                yield Expression((first, left[0]), change, start, left.pop(0).end)
                continue
        yield Expression((first,), False, start, first.end)


def _are_comparable(first: Number, second: Number) -> bool:
    """True if a number can change into another: 2 minutes into 30 s, not into 95 %."""
    if second.own_unit and not first.own_unit and _YEAR.fullmatch(f"{first.value:f}"):
        return False  # "from 26.3 % in 2022 to 0.97 %"
    units = {first.unit, second.unit}
    return not first.own_unit or len(units) == 1 or units <= TIMES or units <= SIZES

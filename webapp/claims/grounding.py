"""Looks a claim up in its paper: the quote in the text, its number and unit in the quote.

A model may invent a number, a unit or a quote, or cut a true quote so that 23.52 reads 3.5. So the
quote is looked up in the folded text, and the value is compared with the numbers that the text
has at that place, never with those in the model's quote.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import islice, pairwise
from operator import attrgetter

from django.db import models

from .numbers import (
    Folded,
    Number,
    fold,
    fold_with_places,
    numbers,
    numbers_in,
    unit_at,
    unit_named,
)


class GroundingState(models.TextChoices):
    """The extent to which a text holds a claim. Only the first may get a verdict."""

    UNIT = "number and unit", "number and unit found in the text"
    NUMBER = "number only", "number found, its unit is not written there"
    MISSING = "not found", "not found in the text"


MIN_QUOTE_WORDS = 3
MAX_QUOTE = 1000  # characters: a quote is a sentence or two, not the paper
MAX_PLACES = 20  # of a quote that are looked at
_FILLERS = frozenset(
    {"of", "the", "per", "in", "on", "for", "an", "at", "to", "by", "than", "with"}
)
_CONJUNCTIONS = frozenset(
    {"and", "or", "over", "from", "across", "against", "compared", "versus", "vs", "while", "which"}
    | {"when", "using", "respectively", "as", "is", "are", "was", "were", "but"}
)
PAIR_REACH = 120  # characters between the two numbers of "from 74.97 (dense) to 79.66"
NOUN_REACH = 32  # characters between a number and the words it counts
_PER = re.compile(r" ?(?:/|per) ?([^\W\d_]+)")
_NEXT_NUMBER = re.compile(r"(?<![\w@.])(?<![a-z]-)\d|[.;] ")
_TAIL = re.compile(r"[\^:]-?\d+")  # 2^10 and 8:1 are other numbers than 2 and 8
_ASIDE = re.compile(r" ?\((?:vs\.?|versus|against|(?:up |down )?from|compared to) [^()]{1,30}\)")
_OTHER_END = re.compile(
    r"(?:[kmbt](?!\w))? ?(?:-|to|or|vs\.?|versus) ?\d+(?:\.\d+)?(?:[kmbt](?!\w))?"
)
_MARK = re.compile(r"[^\W\d_]|[€£¥₩₹‰″]")  # of a unit that is no word: V, F1, €


@dataclass(frozen=True)
class Grounding:
    """The result, the reason unless it is the best one, and the words around the number."""

    state: GroundingState
    reason: str = ""
    context: str = ""  # of the folded text, where the number was found


@dataclass(frozen=True)
class _Claimed:
    """The numbers of a claim, and what it calls them: a unit we know, and further words."""

    numbers: tuple[Number, ...]
    unit: str
    words: tuple[str, ...]
    per: str  # the "token" of "ms/token"
    tail: str
    is_change: bool


class GroundTruth:
    """A paper's text, folded and read once, against which claims and numbers are checked."""

    def __init__(self, text: str) -> None:
        self._folded = fold_with_places(text)
        self._text = self._folded.text

    @cached_property
    def _numbers(self) -> list[Number]:
        return numbers_in(self._folded)

    @property
    def folded(self) -> Folded:
        """The text in the form that all comparisons use."""
        return self._folded

    @cached_property
    def _by_value(self) -> dict[Decimal, list[Number]]:
        index: dict[Decimal, list[Number]] = {}
        for number in self._numbers:
            for value in {abs(number.value), *(value for value, _ in number.same)}:
                index.setdefault(value, []).append(number)
        return index

    def occurrences(self, value: Decimal) -> list[Number]:
        """The first few places of the text that give a number, whatever its sign."""
        return self._by_value.get(abs(value), [])[:MAX_PLACES]

    def numbers_between(self, start: int, end: int) -> list[Number]:
        """The numbers that begin in a part of the folded text."""
        first = bisect_left(self._numbers, start, key=attrgetter("start"))
        return self._numbers[first : bisect_left(self._numbers, end, key=attrgetter("start"))]

    def places_of(self, quote: str) -> list[tuple[int, int]]:
        """Return the places of a quote in the folded text; none for one too short to tell."""
        folded = fold(quote)
        if _unusable(folded):
            return []
        places = islice(re.finditer(re.escape(folded), self._text), MAX_PLACES)
        return [place.span() for place in places]

    def holds_number(self, written: str) -> bool:
        """True if the text has every number in `written`, as figures or a word."""
        return all(abs(n.value) in self._by_value for n in numbers(written))

    def holds_quote(self, quote: str) -> bool:
        """True if a quote, if long enough to identify a place, is in the text."""
        folded = fold(quote)
        return not _unusable(folded) and folded in self._text

    def ground(self, value: str, unit: str, quote: str) -> Grounding:
        """Check one claim against the text.

        `value` is as the model wrote it ("3.5", "74.97 -> 79.66", "2-3"), `unit` may be empty.
        """
        claimed = _claimed(value, unit)
        if claimed is None:
            return Grounding(GroundingState.MISSING, "the value is not a number")
        if why := _unusable(fold(quote)):
            return Grounding(GroundingState.MISSING, why)
        groundings = (self._ground_at(claimed, *place) for place in self.places_of(quote))
        nowhere = Grounding(GroundingState.MISSING, "the quote does not stand in the text")
        best_first = list(GroundingState)
        return min(
            groundings, key=lambda grounding: best_first.index(grounding.state), default=nowhere
        )

    def _ground_at(self, claimed: _Claimed, start: int, end: int) -> Grounding:
        """Check a claim at one place; a number cut by the quote's edge counts whole."""
        first = bisect_left(self._numbers, start, key=attrgetter("start"))
        last = bisect_left(self._numbers, end, key=attrgetter("start"))
        while first and self._numbers[first - 1].digits_end > start:
            first -= 1
        matches = list(self._matches(claimed, self._numbers[first:last]))
        if not matches:
            return Grounding(GroundingState.MISSING, "the value does not stand in the quote")
        context = self._text[max(0, start - 20) : end + 20]
        if any(self._has_unit(claimed, standing, context) for standing in matches):
            return Grounding(GroundingState.UNIT, context=context)
        return Grounding(GroundingState.NUMBER, "its unit is not written there", context)

    def _matches(self, claimed: _Claimed, here: list[Number]) -> Iterator[Number]:
        """The number behind which the claim's unit must stand, for each way to find the claim."""
        if len(claimed.numbers) == 1:
            same = (number for number in here if _same_value(claimed.numbers[0], number))
            yield from (number for number in same if _tail(self._text, number) == claimed.tail)
            return
        values = claimed.numbers
        plain = [n for n in here if not n.is_spread]
        for i in range(len(plain) - len(values) + 1):
            run = plain[i : i + len(values)]
            if all(map(_same_value, values, run)) and self._are_linked(run, claimed.is_change):
                yield replace(run[-1], start=run[0].start)  # "F1 rises from 71 to 83"
        if len(values) == 2:  # "61.3 %, up from 47.9 %" is 47.9 -> 61.3
            for i, later in enumerate(plain):
                for earlier in plain[i + 1 : i + 3]:
                    between = self._text[later.end : earlier.start]
                    is_pair = all(map(_same_value, values, (earlier, later)))
                    if is_pair and len(between) <= PAIR_REACH and between.endswith(" from "):
                        yield later

    def _are_linked(self, run: list[Number], is_change: bool) -> bool:
        """True if the numbers belong together: a range, or a change."""
        joints = (self._text[a.end : b.start] for a, b in pairwise(run))
        return all(
            len(joint) <= PAIR_REACH
            and not (is_change and joint.endswith(" from "))  # that is one from the next
            and re.search(
                r"(?:^|\W)(?:-|to|->|and|or|vs|versus|against|than|compared|over|from|x|/|,|±|by)"
                r"(?:\W|$)|[至到和]|^ (?:out )?of(?: the)? $",
                joint,
            )
            for joint in joints
        )

    def _has_unit(self, claimed: _Claimed, standing: Number, context: str) -> bool:
        number = claimed.numbers[-1]
        units = {standing.unit, *(unit for value, unit in standing.same if value == number.value)}
        if "pp" in units:  # of a percentage
            units.add("points")
        if standing.is_spread or (claimed.unit and claimed.unit not in units):
            return False
        # What follows a unit ("% accuracy") may stand anywhere near; what is counted stands beside.
        if claimed.unit or not claimed.words:
            per = _PER.match(self._text, standing.end)
            is_per_other = per and claimed.per and not per[1].startswith(claimed.per)
            return not is_per_other and all(word in context for word in claimed.words)
        if standing.unit not in {"", "points"}:
            return False  # 12 of "12 ms per image" counts no images
        beside = self._counted_words(standing, standing.digits_end + len(claimed.tail))
        return all(_has_word(word, beside) for word in claimed.words)

    def _counted_words(self, number: Number, end: int) -> str:
        """The words that may say what a number counts, up to the next number or sentence."""
        if aside := _ASIDE.match(self._text, end):  # 71.2 (vs. 68.9) BLEU
            end = aside.end()
        if other := _OTHER_END.match(self._text, end):  # 2M vs. 33M parameters
            end = other.end()
        start = max(0, number.start - NOUN_REACH)
        before = _NEXT_NUMBER.split(self._text[start : number.start])[-1]
        after = _NEXT_NUMBER.split(self._text[end : end + NOUN_REACH])[0]
        noun = re.match(r"[\s-]*([^\W\d_]+)", after)
        if noun and noun[1] not in _FILLERS | _CONJUNCTIONS:
            return after
        # "a BLEU of 27.3 on", but not "on 8 GPUs"; another clause is about another number.
        is_other = noun[1] in _CONJUNCTIONS if noun else after.lstrip()[:1] in set(",:)]")
        return before if is_other else f"{after} {before}"


def _unusable(quote: str) -> str:
    """Return the reason not to look a folded quote up, or ""."""
    if len(quote) > MAX_QUOTE:
        return f"the quote is longer than {MAX_QUOTE} characters"
    if len(re.findall(r"[^\W\u3400-\u9fff]+|[\u3400-\u9fff]", quote)) < MIN_QUOTE_WORDS:
        return "the quote is too short to be found again"
    return ""


def _same_value(claimed: Number, standing: Number) -> bool:
    return claimed.value == standing.value or any(
        claimed.value == value and (not claimed.unit or claimed.unit == unit)
        for value, unit in standing.same
    )


def _has_word(word: str, text: str) -> bool:
    """True if a text has a word, perhaps with another ending if it is long."""
    end = "" if len(word) > 2 else "s?(?![a-z])"
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}{end}", text) is not None


def _tail(text: str, number: Number) -> str:
    """Return the characters that make a whole number another one, or ""."""
    match = _TAIL.match(text, number.digits_end)
    return match[0] if match and "." not in text[number.start : number.digits_end] else ""


def _claimed(value: str, unit: str) -> _Claimed | None:
    """The numbers of a claim with its unit, whichever of the two fields holds it."""
    alone = [n for n in numbers(value) if not n.is_spread]
    if not alone:
        return None
    written = fold(value)
    rest = written[alone[-1].end :]
    if unit.strip() in {"$", "\\$", "US$"}:  # the fold takes it for TeX's
        unit = "usd"
    joint = "" if unit in {"k", "K", "M", "B"} else " "
    together = [n for n in numbers(f"{value}{joint}{unit}") if not n.is_spread] if unit else alone
    if unit and not alone[-1].unit and 0 < len(together) <= len(alone):
        # "47.4 -> 43.3" with the unit "K" are thousands both; "1 234" with "ms" is one number.
        is_scaled = len(together) == len(alone) and alone[-1].value
        power = together[-1].value / alone[-1].value if is_scaled else Decimal(1)
        alone = [*(replace(n, value=n.value * power) for n in together[:-1]), together[-1]]
        rest = fold(f"{value} {unit}")[together[-1].end :]
        named = together[-1].unit
    else:
        named = alone[-1].unit
        further = unit_at(fold(unit), 0) if unit else ("", 0)
        if unit_named(fold(unit)) and further[0] != named:
            named = f"{named} and {further[0]}"  # two units: no number has both
        elif unit:
            rest += " " + fold(unit)[further[1] if further[0] == named else 0 :]
    tokens = re.findall(r"[^\W\d_]{2,}(?:-\d+)?", rest)  # "top-5" is another word than "top-1"
    words = tuple(word.removesuffix("s") for word in tokens if word not in _FILLERS)
    per = _PER.match(rest)
    mark = rest.strip(" .,;:()[]+*~<>=\"'")
    if not words and not named and _MARK.search(mark):
        words = (mark,)
    return _Claimed(
        numbers=tuple(alone),
        unit=named,
        words=words,
        per=per[1].removesuffix("s") if per else "",
        tail=_tail(written, alone[-1]),
        is_change=bool(re.search(r"->|\bto\b", written)),
    )

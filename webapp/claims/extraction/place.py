"""The sentences of a text, and the words around a number in its sentence."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from webapp.claims.numbers import Folded

from .words import OWN_WORK

_ABBREVIATION = re.compile(
    r"\b(?:e\.g|i\.e|et al|etc|vs|cf|resp|approx|fig|eq|sec|tab|no|dr|st|w\.r\.t|[a-z])\.$"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]* (?=[\"'(\[\\{*]*[A-Z0-9])")
_SPREAD = re.compile(r" ?(?:± ?[\d.]+%?|\([\d.]+\))")


REACH = 400  # characters of a sentence that are looked at on either side


@dataclass(frozen=True)
class Place:
    """The words around an expression: its sentence, before and after it, and where that stands."""

    folded: Folded
    sentence: tuple[int, int]
    start: int
    end: int
    is_background: bool

    @cached_property
    def before(self) -> str:
        """The sentence up to the expression, its last REACH characters."""
        return self.folded.text[self.before_start : self.start]

    @property
    def before_start(self) -> int:
        """The start of `before` in the folded text."""
        return max(self.sentence[0], self.start - REACH)

    @cached_property
    def after(self) -> str:
        """The sentence behind the expression and its spread, its first REACH characters."""
        return self.folded.text[self.after_start : min(self.sentence[1], self.end + REACH)]

    @cached_property
    def after_start(self) -> int:
        """The start of `after` in the folded text."""
        spread = _SPREAD.match(self.folded.text, self.end)
        return spread.end() if spread else self.end

    @property
    def words(self) -> str:
        """The sentence around the expression."""
        end = min(self.sentence[1], self.end + REACH)
        return self.folded.text[self.before_start : end]


class Context:
    """The sentences of an abstract, and which come before it speaks of its own work."""

    def __init__(self, folded: Folded) -> None:
        self._folded = folded
        self._sentences = list(sentences(folded))
        own_work = [
            i for i, s in enumerate(self._sentences) if OWN_WORK.search(folded.text[slice(*s)])
        ]
        self._first_own = min(own_work, default=0)

    def around(self, start: int, end: int) -> Place:
        """The place of the expression at `start:end`."""
        i = bisect_left([last for _, last in self._sentences[:-1]], end)
        return Place(self._folded, self._sentences[i], start, end, i < self._first_own)


def sentences(folded: Folded) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence of a folded text, abbreviations and decimals kept whole."""
    start = 0
    for gap in _SENTENCE_END.finditer(folded.cased):
        if not _ABBREVIATION.search(folded.text, start, gap.start()):
            yield start, gap.start()
            start = gap.end()
    if start < len(folded.text):
        yield start, len(folded.text)

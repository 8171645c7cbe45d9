"""The passage of a paper that a sentence about it rests on, by the words that they share.

A Chinese sentence shares no words with an English paper: it rests on the passage that has its
numbers, its formulae and its names, which stay in English.
"""

import re
from collections.abc import Iterable
from functools import cached_property

from webapp.claims.numbers import fold
from webapp.papers.search.words import stem

from .paper_text import PaperText

LEAST_SHARE = 0.5  # of a sentence's words that its passage has
LEAST_WORDS = 2
RARE_DIGITS = 3  # of a number
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\n+")
_WORD = re.compile(r"[a-z]{4,}|\d+(?:\.\d+)?")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_NUMBER = r"\d+(?:\.\d+)?"
# A number, or a name of two signs or more: 57.9, A100, KV, Agent4Drone, Qwen2.5-7B.
_ANCHOR = re.compile(rf"[a-z][a-z0-9]*(?:[-.][a-z0-9]+)+|[a-z][a-z0-9]+|{_NUMBER}")
_FORMULA = re.compile(r"\$([^$]+)\$")
# Words of any sentence about a paper, which say nothing of this one.
_GENERAL = frozenset(
    {"this", "that", "these", "those", "with", "from", "into", "only", "also", "were", "have"}
    | {"been", "which", "their", "they", "than", "more", "most", "such", "does", "when", "where"}
    | {"paper", "author", "authors", "method", "methods", "model", "models", "approach", "result"}
    | {"results", "limited", "limitation", "limitations", "need", "needs", "required", "requires"}
)


class Passages:
    """The sentences of a paper, each with its words."""

    def __init__(self, truth: PaperText) -> None:
        self._truth = truth

    @cached_property
    def _sentences(self) -> list[tuple[str, str, set[str]]]:
        """Each sentence as written, folded, and as a set of words."""
        written = (part.strip() for part in _SENTENCE_END.split(self._truth.original))
        return [(part, fold(part), _words(part)) for part in written if part]

    @cached_property
    def _anchored(self) -> list[tuple[str, set[str]]]:
        """Each sentence as written, and its numbers, names and formulae."""
        return [(written, _anchors(written)) for written, _, _ in self._sentences]

    def passage(self, statement: str) -> str:
        """Return the sentence that a statement rests on, or "".

        It is the first one that holds the statement word for word (a name, a data set), else the
        one that has most of its words, and at least half of them.
        """
        folded = fold(statement).strip(" .")
        if len(folded) > 1:
            whole = re.compile(rf"(?<!\w){re.escape(folded)}(?!\w)")
            for written, sentence, _ in self._sentences:
                if whole.search(sentence):
                    return written
        if _HAN.search(statement):
            return self._passage_of_anchors(_anchors(statement))
        words = _words(statement)
        texts = ((written, of_sentence) for written, _, of_sentence in self._sentences)
        best, shared = _nearest(words, texts)
        return best if len(words) >= LEAST_WORDS and shared >= LEAST_SHARE * len(words) else ""

    def _passage_of_anchors(self, anchors: set[str]) -> str:
        """Return the sentence with all numbers of a Chinese statement and most of its names.

        It has two of these, or a number that hardly stands there by chance.
        """
        exact = {anchor for anchor in anchors if anchor[0].isdigit() or anchor[0] == "$"}
        texts = ((written, anchors) for written, anchors in self._anchored if exact <= anchors)
        best, shared = _nearest(anchors, texts)
        is_rare = any(sum(map(str.isdigit, anchor)) >= RARE_DIGITS for anchor in exact)
        is_enough = shared >= LEAST_WORDS or is_rare
        return best if is_enough and shared >= LEAST_SHARE * len(anchors) else ""


def _nearest(words: set[str], texts: Iterable[tuple[str, set[str]]]) -> tuple[str, int]:
    """Return the first text that has most of the words, and the number that it has."""
    best, most = "", 0
    for written, candidate in texts:
        if (shared := len(words & candidate)) > most:
            best, most = written, shared
    return best, most


def _anchors(text: str) -> set[str]:
    """Return the numbers, names and formulae of a text, the last as "$…" without blanks."""
    formulae = {f"${''.join(fold(source).split())}" for source in _FORMULA.findall(text)}
    names = set(_ANCHOR.findall(fold(_FORMULA.sub(" ", text))))
    return formulae | (names - _GENERAL)


def _words(text: str) -> set[str]:
    return {stem(word) for word in _WORD.findall(fold(text)) if word not in _GENERAL}

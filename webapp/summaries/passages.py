"""The passage of a paper that a sentence about it rests on, by the words that they share."""

import re

from webapp.claims.numbers import fold
from webapp.papers.search.words import stem

from .paper_text import PaperText

LEAST_SHARE = 0.5  # of a sentence's words that its passage has
LEAST_WORDS = 2
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\n+")
_WORD = re.compile(r"[a-z]{4,}")
# Words of any sentence about a paper, which say nothing of this one.
_GENERAL = frozenset(
    {"this", "that", "these", "those", "with", "from", "into", "only", "also", "were", "have"}
    | {"been", "which", "their", "they", "than", "more", "most", "such", "does", "when", "where"}
    | {"paper", "author", "authors", "method", "methods", "model", "models", "approach", "result"}
    | {"results", "limited", "limitation", "limitations", "need", "needs", "required", "requires"}
)


def passage(statement: str, truth: PaperText) -> str:
    """Return the sentence of a paper that has most words of a statement; "" below half of them."""
    words = _words(statement)
    if len(words) < LEAST_WORDS:
        return ""
    best, share = "", 0.0
    for sentence in _SENTENCE_END.split(truth.original):
        shared = len(words & _words(sentence)) / len(words)
        if shared > share:
            best, share = sentence.strip(), shared
    return best if share >= LEAST_SHARE else ""


def _words(text: str) -> set[str]:
    return {stem(word) for word in _WORD.findall(fold(text)) if word not in _GENERAL}

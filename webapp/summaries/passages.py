"""The passage of a paper that a sentence about it rests on, by the words that they share."""

import re
from functools import cached_property

from webapp.claims.numbers import fold
from webapp.papers.search.words import stem

from .paper_text import PaperText

LEAST_SHARE = 0.5  # of a sentence's words that its passage has
LEAST_WORDS = 2
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\n+")
_WORD = re.compile(r"[a-z]{4,}|\d+(?:\.\d+)?")
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

    def passage(self, statement: str) -> str:
        """Return the sentence that a statement rests on, or "".

        It is the first one that holds the statement word for word (a name, a data set), else the
        one that has most of its words, and at least half of them.
        """
        folded, words = fold(statement).strip(" ."), _words(statement)
        if len(folded) > 1:
            whole = re.compile(rf"(?<!\w){re.escape(folded)}(?!\w)")
            for written, sentence, _ in self._sentences:
                if whole.search(sentence):
                    return written
        if len(words) < LEAST_WORDS:
            return ""
        best, share = "", 0.0
        for written, _, of_sentence in self._sentences:
            shared = len(words & of_sentence) / len(words)
            if shared > share:
                best, share = written, shared
        return best if share >= LEAST_SHARE else ""


def _words(text: str) -> set[str]:
    return {stem(word) for word in _WORD.findall(fold(text)) if word not in _GENERAL}

"""Text in the form that terms are matched against: folded and tokenized once for all of them."""

import re
from collections import Counter
from functools import cached_property

from webapp.digests.scoring.terms import TOKEN, Kind, Term, fold, normalise

_ASCII_TOKEN = re.compile(r"[a-z0-9]+")


class FoldedText:
    """A title, an abstract or a sentence; `term in text` is true if it contains the term."""

    def __init__(self, text: str) -> None:
        self.plain = normalise(text)

    @cached_property
    def _words(self) -> str:
        return fold(self.plain)

    def folded(self, kind: Kind) -> str:
        """Return the text folded for terms of this kind."""
        return self._words if kind is Kind.WORDS else fold(self.plain, kind)

    @cached_property
    def _sequence(self) -> list[str]:
        return (_ASCII_TOKEN if self._words.isascii() else TOKEN).findall(self._words)

    @cached_property
    def tokens(self) -> frozenset[str]:
        """Tokens of the text."""
        return frozenset(self._sequence)

    @cached_property
    def _repeated(self) -> frozenset[str]:
        return frozenset(token for token, count in Counter(self._sequence).items() if count > 1)

    @cached_property
    def _joined(self) -> str:
        return f" {' '.join(self._sequence)}"

    # A sequence of tokens is looked for faster than a pattern is matched, and a token faster still.

    def __contains__(self, term: Term) -> bool:
        """True if the text contains the term."""
        if term.exact and term.anchors:
            return not term.anchors.isdisjoint(self.tokens)
        if term.sequence and term.sequence not in self._joined:
            return False
        return term.pattern.search(self.folded(term.kind)) is not None

    def repeats(self, term: Term) -> bool:
        """True if the text contains the term at least twice."""
        if term.exact and term.anchors:
            once = term.anchors & self.tokens  # a word and its plural are two
            return len(once) > 1 or not self._repeated.isdisjoint(once)
        if term.sequence and self._joined.count(term.sequence) < 2:
            return False
        text, search = self.folded(term.kind), term.pattern.search
        first = search(text)
        # The delimiter right of a word may also be the one left of the next word.
        return bool(first and search(text, max(first.end() - 1, first.start() + 1)))

"""Search for many terms in a text at once: by one automaton, or by the text's tokens.

An automaton (RE2's Set) takes microseconds per paper, but its number of states explodes with many
terms, so it is for one profile. Tokens are for a thousand keywords: only terms that share a token
with the text are searched for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import re2

from webapp.digests.scoring.terms import Kind, Term, fold, options
from webapp.digests.scoring.texts import FoldedText

SET_MEMORY = 64 << 20  # bytes of an automaton's states, which are discarded beyond that
SET_TERMS = 64  # terms of one automaton

_END = 0  # the index of the pattern that matches the text's end
_FIELD_SEPARATOR = "\n\0\n"  # no phrase extends over it

Numbered = Sequence[tuple[int, Term]]


def term_matchers(terms: Sequence[Term], *, single: bool) -> list[AutomatonMatcher | TokenMatcher]:
    """Matchers for all of `terms`, numbered in their order; `single`: they are one profile's."""
    made: list[AutomatonMatcher | TokenMatcher] = []
    for kind in Kind:
        numbered = [(number, term) for number, term in enumerate(terms) if term.kind is kind]
        if not (single and len(numbered) <= SET_TERMS):
            if by_token := [(number, term) for number, term in numbered if term.anchors]:
                made.append(TokenMatcher(by_token))
            numbered = [(number, term) for number, term in numbered if not term.anchors]
        made += [
            AutomatonMatcher(kind, numbered[start : start + SET_TERMS])
            for start in range(0, len(numbered), SET_TERMS)
        ]
    return made


class AutomatonMatcher:
    """All terms of one kind in one pass over the text."""

    def __init__(self, kind: Kind, terms: Numbered) -> None:
        self._kind = kind
        self._terms = terms
        sources = [term.source for _, term in terms]
        self._for_folded = self._compiled(sources)
        # To fold a text costs a third of the search in it, so ASCII is searched as it is, without
        # regard to case. Of a folded word only ASCII letters match ASCII ones, but a substring is
        # in lower case alone: its U+017F would match an s.
        is_words = kind is Kind.WORDS
        self._for_ascii = self._compiled(
            [f"(?i){source}" if is_words or source.isascii() else source for source in sources]
        )

    def _compiled(self, sources: Sequence[str]) -> re2.Set | None:
        """An automaton for all the patterns; None if it needs too much memory."""
        chosen = options(self._kind)
        chosen.max_mem = SET_MEMORY
        made = re2.Set.SearchSet(chosen)
        # RE2's Set returns no matches also when it runs out of memory, so a result without the
        # text's end is invalid. (An empty pattern would match at, and cost, every character.)
        made.Add(r"\z")
        for source in sources:
            made.Add(source)
        try:
            made.Compile()
        except re2.error:
            return None
        return made

    def match(
        self, title: FoldedText, abstract: FoldedText
    ) -> tuple[Collection[int], Collection[int]]:
        """The numbers of the terms in the title, and of those in the title or the abstract."""
        if self._kind is Kind.REGEX:  # `^` and `$` match the ends of a field
            in_title = self._terms_in(title.plain)
            return in_title, {*in_title, *self._terms_in(abstract.plain)}
        # The seed bot reads both as one text.
        between = " " if self._kind is Kind.SUBSTRING else _FIELD_SEPARATOR
        anywhere = self._terms_in(title.plain + between + abstract.plain)
        return (self._terms_in(title.plain) if anywhere else ()), anywhere

    def _terms_in(self, text: str) -> Collection[int]:
        automaton = self._for_ascii
        if not text.isascii() or "$" in text:
            text, automaton = fold(text, self._kind), self._for_folded
        matches = automaton.Match(text) if automaton is not None else None
        if matches is None or _END not in matches:
            text = fold(text, self._kind)
            return {number for number, term in self._terms if term.pattern.search(text)}
        if len(matches) == 1:
            return ()
        return [self._terms[index - 1][0] for index in matches if index != _END]


class TokenMatcher:
    """Terms that have anchors, by the tokens of a text."""

    def __init__(self, terms: Numbered) -> None:
        self._terms = dict(terms)
        # By token: terms that are certain to match with it, and terms that may match.
        self._by_token: dict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        for number, term in terms:
            for anchor in term.anchors:
                certain, possible = self._by_token[anchor]
                (certain if term.exact else possible).add(number)

    def match(
        self, title: FoldedText, abstract: FoldedText
    ) -> tuple[Collection[int], Collection[int]]:
        """The numbers of the terms in the title, and of those in the title or the abstract."""
        in_title = self._terms_in(title)
        return in_title, in_title | self._terms_in(abstract)

    def _terms_in(self, text: FoldedText) -> set[int]:
        matching: set[int] = set()
        for token in self._by_token.keys() & text.tokens:
            certain, possible = self._by_token[token]
            matching |= certain
            matching.update(number for number in possible if self._terms[number] in text)
        return matching

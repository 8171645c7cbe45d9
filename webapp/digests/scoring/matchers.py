"""Many terms sought in a text at once: by one automaton, or by the text's tokens.

An automaton (RE2's Set) takes microseconds a paper, but its states multiply with what a text may
hold, so it serves one profile. Tokens serve a thousand keywords: a token is looked up in them
once, however many papers hold it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import re2

from webapp.digests.scoring.terms import TOKEN, Kind, Term, fold, options

SET_MEMORY = 64 << 20  # bytes an automaton's states may take before they are begun anew
SET_TERMS = 64  # terms of one automaton
MAX_VOCABULARY = 500_000  # tokens remembered

_EMPTY_PATTERN = 0  # the empty pattern's index
_FIELD_SEPARATOR = "\n\0\n"  # no phrase reaches over it
_ASCII_TOKEN = re.compile(r"[a-z0-9]+")

Numbered = Sequence[tuple[int, Term]]


class TermMatcher(Protocol):
    """Finds some of the terms in a paper."""

    def match(self, title: str, abstract: str) -> tuple[Collection[int], Collection[int]]:
        """The numbers of the terms in the title, and of those in the title or the abstract."""


def term_matchers(terms: Sequence[Term], *, single: bool) -> list[TermMatcher]:
    """What finds all of `terms`, numbered as they stand; `single` when they are one profile's."""
    made: list[TermMatcher] = []
    for kind in Kind:
        numbered = [(number, term) for number, term in enumerate(terms) if term.kind is kind]
        if kind is Kind.WORDS and numbered and not (single and len(numbered) <= SET_TERMS):
            made.append(TokenMatcher(numbered))
        else:
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
        chosen = options(kind)
        chosen.max_mem = SET_MEMORY
        self._set = re2.Set.SearchSet(chosen)
        # RE2's Set says "nothing found" also when it runs out of memory. The empty pattern is
        # found in every text, so an answer without it is no answer.
        self._set.Add("")
        for _, term in terms:
            self._set.Add(term.source)
        self._numbers = [-1, *(number for number, _ in terms)]
        try:
            self._set.Compile()
        except re2.error:
            self._set = None

    def match(self, title: str, abstract: str) -> tuple[Collection[int], Collection[int]]:
        """As `TermMatcher` says."""
        if self._kind is Kind.REGEX:  # `^` and `$` are the ends of a field
            in_title = self._terms_in(title)
            return in_title, {*in_title, *self._terms_in(abstract)}
        if self._kind is Kind.SUBSTRING:  # the seed bot reads both as one text
            anywhere = self._terms_in(f"{title} {abstract}".lower())
            return (self._terms_in(title.lower()) if anywhere else ()), anywhere
        anywhere = self._terms_in(fold(title + _FIELD_SEPARATOR + abstract))
        return (self._terms_in(fold(title)) if anywhere else ()), anywhere

    def _terms_in(self, text: str) -> Collection[int]:
        found = self._set.Match(text) if self._set is not None else None
        if found is None or _EMPTY_PATTERN not in found:
            return {number for number, term in self._terms if term.pattern.search(text)}
        if len(found) == 1:
            return ()
        numbers = self._numbers
        return [numbers[index] for index in found if index]


class TokenMatcher:
    """Terms of words, by the tokens a text is made of."""

    def __init__(self, terms: Numbered) -> None:
        self._closed: dict[str, list[int]] = defaultdict(list)
        self._open: dict[str, list[int]] = defaultdict(list)
        for number, term in terms:
            for anchor in term.anchors:
                (self._open if term.open else self._closed)[anchor].append(number)
        self._lengths = sorted({len(anchor) for anchor in self._open})
        self._terms = dict(terms)
        self._exact = {number for number, term in terms if term.exact}
        self._indexed: set[str] = set()
        # By token: terms that it alone shows to be there, and terms still to be sought.
        self._terms_by_token: dict[str, tuple[set[int], set[int]]] = {}

    def match(self, title: str, abstract: str) -> tuple[Collection[int], Collection[int]]:
        """As `TermMatcher` says."""
        in_title = self._terms_in(fold(title))
        return in_title, in_title | self._terms_in(fold(abstract))

    def _terms_in(self, text: str) -> set[int]:
        sequence = (_ASCII_TOKEN if text.isascii() else TOKEN).findall(text)
        tokens = set(sequence)
        self._index_tokens(tokens - self._indexed)
        found: set[int] = set()
        candidates: set[int] = set()
        for token in self._terms_by_token.keys() & tokens:
            certain, possible = self._terms_by_token[token]
            found |= certain
            candidates |= possible
        if candidates:
            joined = f" {' '.join(sequence)}"
            for number in candidates:
                term = self._terms[number]
                if term.sequence in joined and term.pattern.search(text):
                    found.add(number)
        return found

    def _index_tokens(self, tokens: Iterable[str]) -> None:
        """Look up once which terms a new token may begin."""
        if len(self._indexed) > MAX_VOCABULARY:
            self._indexed.clear()
            self._terms_by_token.clear()
        for token in tokens:
            self._indexed.add(token)
            numbers = set(self._closed.get(token, ()))
            # Open anchors are beginnings of tokens: try each length that occurs.
            for length in self._lengths:
                numbers.update(self._open.get(token[:length], ()))
            if numbers:
                self._terms_by_token[token] = (numbers & self._exact, numbers - self._exact)

"""Phrases of a family in a paper, each with its place, its weight and the evidence against it.

A phrase is written as in a spec: spaces and hyphens are alike, `(a|b)` is a choice, `[may be]` is
optional, `*` ends a stem, `~` stands for up to four words, the last word may be a plural, and `a &
b` are two phrases of one sentence in any order.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import re2

from methods.spec import Family, Mechanism
from webapp.papers.proposal import SENTENCE_END

TITLE = 2.0  # a phrase of the title counts double
OWN = 1.5  # and one in a sentence on the paper's own work half as much again
_OWN_WORK = re.compile(
    r"\b(we|our|this (paper|work|study)|is (proposed|introduced|presented))\b", re.IGNORECASE
)


class Found(NamedTuple):
    """A phrase at a place in a paper."""

    words: str
    place: str  # title, own work or abstract
    weight: float  # below 0 where it speaks against the family


class PaperSentence(NamedTuple):
    """A sentence, the title among them."""

    text: str
    place: str


@cache
def pattern(written: str) -> re2._Regexp:
    """Return the regular expression for a phrase in the syntax of a spec."""
    expression = re.sub(r"(\\ )?\\\[(.*?)\\\]", r"(?:\1(?:\2))?", re.escape(written))
    for sign, means in (("(", "(?:"), (")", ")"), ("|", "|")):
        expression = expression.replace(f"\\{sign}", means)
    expression = expression.replace(r"\*", r"\w*").replace(r"\~\ ", r"(?:[\w/]+[\s-]+){0,4}?")
    expression = expression.replace(r"\ ", r"[\s-]+")
    return re2.compile(rf"(?i)\b(?:{expression})s?\b")


def find(family: Family, title: str, abstract: str) -> list[Found]:
    """Return each phrase of the family once, at its weightiest place, the weightiest first."""
    against = {phrase: -weight for phrase, weight in family.against.items()}
    return _weighed([*family.phrases.items(), *against.items()], title, abstract)


def mechanism(mechanism: Mechanism, title: str, abstract: str) -> Found | None:
    """The phrase by which a paper's title, or a sentence on its own work, names the mechanism."""
    named = _weighed([(phrase, 1.0) for phrase in mechanism.phrases], title, abstract)
    return next((phrase for phrase in named if phrase.place != "abstract"), None)


def _weighed(phrases: list[tuple[str, float]], title: str, abstract: str) -> list[Found]:
    text = sentences(title, abstract)
    whole = "\n".join(sentence.text for sentence in text)
    weighed = []
    for written, weight in phrases:
        parts = written.split(" & ")
        if all(pattern(part).search(whole) for part in parts):
            weighed += sorted(_places(parts, weight, text), key=lambda phrase: -abs(phrase.weight))[
                :1
            ]
    return sorted(weighed, key=lambda phrase: -abs(phrase.weight))


def _places(parts: list[str], weight: float, text: list[PaperSentence]) -> Iterator[Found]:
    factors = {"title": TITLE, "own work": OWN, "abstract": 1.0}
    for sentence in text:
        matches = [match for part in parts if (match := pattern(part).search(sentence.text))]
        if len(matches) == len(parts):
            matches.sort(key=lambda match: match.start())
            quote = " … ".join(" ".join(match[0].split()) for match in matches)
            yield Found(quote, sentence.place, weight * factors[sentence.place])


def sentences(title: str, abstract: str) -> list[PaperSentence]:
    """Split a paper into its title and sentences, marking those about the authors' own work."""
    return [
        PaperSentence(title, "title"),
        *(
            PaperSentence(text, "own work" if _OWN_WORK.search(text) else "abstract")
            for text in SENTENCE_END.split(abstract)
        ),
    ]


def summary(named: list[Found]) -> tuple[float, ...]:
    """Return the total weights of phrases in the title, on own work, elsewhere, and against."""
    by_place = {"title": 0.0, "own work": 0.0, "abstract": 0.0, "against": 0.0}
    for phrase in named:
        by_place[phrase.place if phrase.weight > 0 else "against"] += abs(phrase.weight)
    return tuple(by_place.values())

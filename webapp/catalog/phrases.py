"""The phrases of a family in a paper: each with its place, its weight, and what stands against it.

A phrase is written as in a spec: blanks and hyphens are alike, `(a|b)` chooses, `[may be]`, `*`
ends a stem, `~` stands for up to four words, and the last word may be a plural.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from methods.spec import Family

TITLE = 2.0  # a phrase of the title counts double
OWN = 1.5  # and one in a sentence on the paper's own work half as much again
_OWN_WORK = re.compile(
    r"\b(we|our|this (paper|work|study)|is (proposed|introduced|presented))\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\\$])")


@dataclass(frozen=True)
class Found:
    """A phrase where it stands: `start` and `end` count within the title or the abstract."""

    words: str
    place: str  # title, own work or abstract
    weight: float  # below 0 where it speaks against the family
    start: int
    end: int


@cache
def pattern(written: str) -> re.Pattern[str]:
    """The regular expression of a phrase as it is written in a spec."""
    made = re.escape(written)
    for sign, means in (("[", "(?:"), ("]", ")?"), ("(", "(?:"), (")", ")"), ("|", "|")):
        made = made.replace(f"\\{sign}", means)
    made = made.replace(r"\*", r"\w*").replace(r"\~\ ", r"(?:[\w/]+[\s-]+){0,4}?")
    made = made.replace(r"\ ", r"[\s-]+")
    return re.compile(rf"(?<!\w)(?:{made})s?(?!\w)", re.IGNORECASE)


def find(family: Family, title: str, abstract: str) -> list[Found]:
    """Each phrase of the family once, at its weightiest place, the weightiest first."""
    found = []
    for phrases, sign in ((family.phrases, 1.0), (family.against, -1.0)):
        for written, weight in phrases.items():
            places = list(_places(pattern(written), sign * weight, title, abstract))
            if places:
                found.append(max(places, key=lambda one: abs(one.weight)))
    return sorted(found, key=lambda one: -abs(one.weight))


def _places(made: re.Pattern[str], weight: float, title: str, abstract: str) -> Iterator[Found]:
    for match in made.finditer(title):
        yield _found(match, "title", weight * TITLE)
    owned = _own_spans(abstract)
    for match in made.finditer(abstract):
        own = any(start <= match.start() < end for start, end in owned)
        placed = weight * (OWN if own else 1.0)
        yield _found(match, "own work" if own else "abstract", placed)


def _found(match: re.Match[str], place: str, weight: float) -> Found:
    return Found(" ".join(match[0].split()), place, weight, match.start(), match.end())


def _own_spans(abstract: str) -> list[tuple[int, int]]:
    """The sentences in which the authors say what they do."""
    spans, start = [], 0
    for cut in [*(m.start() for m in _SENTENCE.finditer(abstract)), len(abstract)]:
        if _OWN_WORK.search(abstract, start, cut):
            spans.append((start, cut))
        start = cut
    return spans


def summary(found: list[Found]) -> tuple[float, float, float]:
    """What the phrases say, for the linear model: for, against, and whether the title has one."""
    speaking = [one.weight for one in found if one.weight > 0]
    against = -sum(one.weight for one in found if one.weight < 0)
    title = any(one.place == "title" and one.weight > 0 for one in found)
    return min(sum(speaking), 12.0), min(against, 8.0), float(title)

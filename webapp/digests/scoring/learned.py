"""The points of a learned model for a paper, and the words that they come from.

Pure functions: no database. A paper half a margin from the boundary on the liked side gets 5
points; on the other side it loses points.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from webapp.learning.linear import Linear
from webapp.learning.tfidf import Vector, vector

POINTS = 10.0  # for a distance of one margin from the boundary
SHOWN = 4  # words named as reasons; the others are one reason together
LEARNED = "learned:"  # before a word in a stored match
OTHERS = f"{LEARNED}other words"

paper_vector = lru_cache(maxsize=2048)(vector)  # many readers have the same papers of a day


def points(model: Linear, paper: Vector) -> float:
    """The points of a paper, negative if it is unlike what was liked, rounded to tenths."""
    return round(POINTS * model.log_odds(paper), 1)


def reasons(model: Linear, paper: Vector) -> list[tuple[str, float]]:
    """The words (or pairs) with the most points, and all others as one; they add up to `points`."""
    strongest = model.parts(paper)[:SHOWN]
    named = [(LEARNED + term, round(POINTS * value, 1)) for term, value in strongest]
    named = [(word, earned) for word, earned in named if earned]
    rest = round(points(model, paper) - sum(earned for _, earned in named), 1)
    return [*named, (OTHERS, rest)] if rest else named


def places(keyword: str, text: str) -> Iterator[tuple[int, int]]:
    """Where the word, or pair of words, of a reason is in a text."""
    words = keyword.removeprefix(LEARNED).split()
    if keyword == OTHERS or not words:
        return
    pattern = r"(?<![a-z0-9])" + r"[^a-z0-9]+".join(map(re.escape, words)) + r"(?![a-z0-9])"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        yield match.span()

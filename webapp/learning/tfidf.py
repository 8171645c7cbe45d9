"""TF-IDF vectors of papers: words and pairs of words, over a vocabulary stored as data."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

DATA = Path(__file__).with_name("data")
TITLE_COUNTS = 3  # a word of the title weighs as much as three of the abstract
WORD = re.compile(r"[a-z][a-z0-9]+")
STOP = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "for", "from", "has"}
    | {"have", "in", "into", "is", "it", "its", "may", "more", "not", "of", "on", "or", "our"}
    | {"such", "than", "that", "the", "their", "these", "they", "this", "to", "we", "which"}
    | {"while", "with"}
)

Vector = dict[str, float]


def words(text: str) -> list[str]:
    """The words of a text in lower case, split at hyphens, without stop words."""
    return [word for word in WORD.findall(text.lower()) if word not in STOP]


def terms(title: str, abstract: str, title_counts: int = TITLE_COUNTS) -> Counter[str]:
    """The counts of words and pairs of adjacent words; those of the title count several times."""
    in_title, in_abstract = words(title), words(abstract)
    counted = title_counts * [*in_title, *map(" ".join, pairwise(in_title))]
    # A Counter of one list counts in C, in a third of the time of adding term by term.
    return Counter([*counted, *in_abstract, *map(" ".join, pairwise(in_abstract))])


@cache
def vocabulary() -> Mapping[str, float]:
    """The inverse document frequency of every term of the vocabulary."""
    frequencies: dict[str, float] = json.loads((DATA / "vocabulary.json").read_text())
    return frequencies


def vector(title: str, abstract: str) -> Vector:
    """The paper as a vector of length 1: (1 + ln count) * idf, over the vocabulary."""
    weighed, length = weights(title, abstract)
    return {term: value / length for term, value in weighed.items()}


def weights(title: str, abstract: str, title_counts: int = TITLE_COUNTS) -> tuple[Vector, float]:
    """The same before it is divided by its length, and that length (1 for an empty vector)."""
    idf, counted = vocabulary(), terms(title, abstract, title_counts).items()
    weighed = {
        term: idf[term] if count == 1 else (1 + math.log(count)) * idf[term]
        for term, count in counted
        if term in idf
    }
    return weighed, math.hypot(*weighed.values()) or 1.0


def dot(vector: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The inner product of two sparse vectors; of two vectors of length 1 their cosine."""
    small, large = sorted((vector, other), key=len)
    return sum(value * large[term] for term, value in small.items() if term in large)

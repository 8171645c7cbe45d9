"""How close a paper is to what a reader saved: its rank among recent papers, and the nearest one.

Pure functions: no database. A model orders papers; the sign of its margin says nothing, since few
examples leave nearly every unseen paper on the far side. So the margin is read as a share: "closer
to what was saved than 99 % of recent papers". In points, that is -ln of the share that is at least
as close: one paper in a hundred earns ln 100 = 4.6, as a keyword does that is that rare.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from operator import itemgetter, mul

from webapp.learning.linear import Linear
from webapp.learning.tfidf import Vector, vector, vocabulary

CLOSE = "learned:close to what was saved"  # as keywords in stored matches
UNLIKE = "learned:close to what is not for the reader"
SURE = 5  # liked papers from which an order is more than a guess
MAX_POINTS = 10.0  # of closeness: one paper in 22,000
PUSH = 10.0  # points that a paper loses if it equals one that is not for the reader
NEAR = 0.05  # cosine below which two papers share only common words
NEAR_REFUSED = 0.2  # the same for a paper that is not for the reader: what it costs must be plain
TERMS = 40  # of an example, the strongest, by which it is compared


def paper_vector(title: str, abstract: str) -> Vector:
    """A paper's vector."""
    numbers, values = numbered_vector(title, abstract)
    return dict(zip(map(_vocabulary().__getitem__, numbers), values, strict=True))


@lru_cache(maxsize=1 << 14)
def numbered_vector(title: str, abstract: str) -> tuple[array[int], array[float]]:
    """The numbers of its terms, and their values.

    Many readers have the same papers, and a preview those of some days: they are kept, in a tenth
    of a dictionary's room.
    """
    known, numbers = vector(title, abstract), term_numbers()
    return array("I", map(numbers.__getitem__, known)), array("d", known.values())


@lru_cache(maxsize=4096)
def paper_product(title: str, abstract: str) -> Callable[[Sequence[float]], float]:
    """The inner product of a paper with weights by the numbers of terms: no loop in Python."""
    numbers, values = numbered_vector(title, abstract)
    chosen = itemgetter(*numbers, 0, 0)  # a tuple, whatever their number; `map` stops before
    return lambda weights: sum(map(mul, chosen(weights), values))


@cache
def _vocabulary() -> tuple[str, ...]:
    return tuple(vocabulary())


@cache
def term_numbers() -> dict[str, int]:
    """The number of each term of the vocabulary."""
    return {term: number for number, term in enumerate(_vocabulary())}


def numbered_weights(model: Linear) -> list[float]:
    """A model's weights by the numbers of terms."""
    numbers = term_numbers()
    weights = [0.0] * len(numbers)
    for term, weight in model.weights.items():
        if term in numbers:  # else it was learned with another vocabulary
            weights[numbers[term]] = weight
    return weights


@dataclass(frozen=True)
class LearnedPaper:
    """A paper that a reader saved or refused. `terms` has length 1; no `arxiv_id`: not stored."""

    title: str
    arxiv_id: str
    liked: bool
    terms: Vector


@dataclass(frozen=True, repr=False)
class Learned:
    """A trained model, calibrated on recent papers."""

    model: Linear
    reference: tuple[float, ...]  # log-odds of recent papers, ascending
    examples: tuple[LearnedPaper, ...]
    liked: int  # papers it was learned from
    fingerprint: str

    def __repr__(self) -> str:
        """What digests depend on; the weights would take longer to write than a day to score."""
        return f"Learned({self.fingerprint})"

    def share(self, log_odds: float) -> float:
        """The share of recent papers that are less close, above 0 and below 1.

        It grows with the log-odds everywhere: linearly between two papers of the reference, and
        exponentially beyond its ends.
        """
        at, count = bisect_left(self.reference, log_odds), len(self.reference)
        if not count:
            return 1 / (1 + math.exp(-max(-500.0, min(log_odds, 500.0))))
        if at == count:
            return 1 - math.exp((self.reference[-1] - log_odds) / self._tail) / (count + 1)
        if at == 0:
            return math.exp((log_odds - self.reference[0]) / self._tail) / (count + 1)
        low, high = self.reference[at - 1], self.reference[at]
        return (at + (log_odds - low) / (high - low)) / (count + 1)

    @cached_property
    def _tail(self) -> float:
        """The mean by which the closest tenth exceeds the rest, for an exponential tail."""
        least = self.reference[int(0.9 * len(self.reference))]
        above = [value - least for value in self.reference if value > least]
        return max(sum(above) / len(above) if above else 0.0, 1e-3)

    @cached_property
    def _by_term(self) -> dict[bool, dict[str, dict[int, float]]]:
        """For either side and each term its weight in the examples that have it."""
        found: dict[bool, dict[str, dict[int, float]]] = {True: {}, False: {}}
        for number, example in enumerate(self.examples):
            side = found[example.liked]
            for term, weight in example.terms.items():
                side.setdefault(term, {})[number] = weight
        return found

    @cached_property
    def refuses(self) -> bool:
        """Whether a paper is known that is not for the reader."""
        return not all(example.liked for example in self.examples)

    def nearest(self, paper: Vector, *, liked: bool) -> tuple[float, LearnedPaper | None]:
        """The example on that side with the largest cosine to a paper, and that."""
        cosines: dict[int, float] = defaultdict(float)
        by_term = self._by_term[liked]
        for term, value in paper.items():
            if examples := by_term.get(term):
                for number, weight in examples.items():
                    cosines[number] += value * weight
        if not cosines:
            return 0.0, None
        cosine = max(cosines.values())
        number = min(number for number, value in cosines.items() if value == cosine)
        return cosine, self.examples[number]

    def push(self, paper: Vector) -> tuple[float, LearnedPaper | None]:
        """The points, 0 or less, for being nearer to a refused paper than to any saved one."""
        if self.refuses:
            cosine, example = self.nearest(paper, liked=False)
            if cosine >= max(NEAR_REFUSED, self.nearest(paper, liked=True)[0]):
                return round(-PUSH * cosine, 1), example
        return 0.0, None


def points(share: float) -> float:
    """Points for being closer than a share of recent papers, rounded to tenths."""
    return min(MAX_POINTS, round(-math.log1p(-share), 1)) if share < 1 else MAX_POINTS


def percent(share: float) -> float:
    """A share as a percentage with one decimal, never 100: there is always a closer paper."""
    return min(99.9, math.floor(1000 * share) / 10)

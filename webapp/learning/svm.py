"""A linear support vector machine in plain Python, which learns what a reader likes in a second.

Dual coordinate descent for the squared hinge loss (Hsieh et al., "A Dual Coordinate Descent Method
for Large-scale Linear SVM", ICML 2008, algorithm 1):

    minimise  1/2 |w|^2 + Σ C_i max(0, 1 - y_i w·x_i)^2
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter, mul

from webapp.learning.linear import Linear
from webapp.learning.tfidf import Vector

COST = 0.03  # C of a class's examples, on average
PASSES = 30  # at most, over all examples
STILL = 0.01  # stop when the largest projected gradient of a pass is below
_BIAS = ""  # not a term: the intercept is learned as the weight of a constant


@dataclass(frozen=True)
class Example:
    """A paper's vector, whether it is liked, and the weight of that."""

    vector: Vector
    liked: bool
    weight: float = 1.0


def fit(examples: Sequence[Example], cost: float = COST) -> Linear:
    """Weights that separate liked papers from others; both classes have the same total weight.

    Deterministic. Raises ValueError if a class has no example.
    """
    totals = {
        side: sum(example.weight for example in examples if example.liked is side)
        for side in (True, False)
    }
    if not all(totals.values()):
        raise ValueError("a model needs liked papers and others")
    half = sum(totals.values()) / 2
    numbers: dict[str, int] = {_BIAS: 0}
    rows = []
    for example in examples:
        vector = {_BIAS: 1.0, **example.vector}
        own = [numbers.setdefault(term, len(numbers)) for term in vector]
        share = example.weight * half / totals[example.liked]
        rows.append(_Row(own, vector, 1 if example.liked else -1, 2 * cost * share))
    intercept, *weights = _descend(rows, len(numbers))
    named = zip(list(numbers)[1:], weights, strict=True)
    return Linear(round(intercept, 4), {term: round(w, 4) for term, w in named if w})


class _Row:
    """An example with its dual variable; `numbers` are those of its terms."""

    def __init__(self, numbers: list[int], vector: Vector, sign: int, doubled_cost: float) -> None:
        self.numbers, self.values, self.sign = numbers, list(vector.values()), sign
        # One number alone gives no tuple; `map` stops after the values.
        self.of = itemgetter(*numbers, 0)
        self.slack = 1 / doubled_cost
        self.curvature = sum(map(mul, self.values, self.values)) + self.slack
        self.alpha = 0.0


def _descend(rows: list[_Row], terms: int) -> list[float]:
    """The weight of each term, by its number."""
    weights = [0.0] * terms
    order = random.Random(0)
    for _ in range(PASSES):
        order.shuffle(rows)
        largest = 0.0
        for row in rows:
            # No loop in Python: this line is where the time goes.
            margin = sum(map(mul, row.of(weights), row.values))
            gradient = row.sign * margin - 1 + row.slack * row.alpha
            if row.alpha == 0 and gradient >= 0:
                continue
            largest = max(largest, abs(gradient))
            before = row.alpha
            row.alpha = max(before - gradient / row.curvature, 0.0)
            step = (row.alpha - before) * row.sign
            for number, value in zip(row.numbers, row.values, strict=True):
                weights[number] += step * value
        if largest < STILL:
            break
    return weights

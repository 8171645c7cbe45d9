"""A linear support vector machine, which learns what a reader likes in a tenth of a second.

Dual coordinate descent for the squared hinge loss (Hsieh et al., "A Dual Coordinate Descent Method
for Large-scale Linear SVM", ICML 2008, algorithm 1):

    minimise  1/2 |w|^2 + Σ C_i max(0, 1 - y_i w·x_i)^2
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from webapp.learning.linear import Linear
from webapp.learning.numbered import named, term_numbers

if TYPE_CHECKING:
    from webapp.learning.numbered import Floats, Numbered

COST = 0.03  # C of a class's examples, on average
PASSES = 30  # at most, over all examples
STILL = 0.01  # stop when the largest projected gradient of a pass is below


class Example(NamedTuple):
    """A paper's vector, whether it is liked, and the weight of that."""

    vector: Numbered
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
    rows = [
        _TrainingRow(example, 2 * cost * example.weight * half / totals[example.liked])
        for example in examples
    ]
    intercept, weights = _descend(rows)
    return Linear(round(intercept, 4), named(weights.round(4)))


class _TrainingRow:
    """An example with its dual variable."""

    def __init__(self, example: Example, doubled_cost: float) -> None:
        (self.numbers, self.values), self.sign = example.vector, 1 if example.liked else -1
        self.slack = 1 / doubled_cost
        # The intercept is learned as the weight of a constant, 1 in each example.
        self.curvature = 1 + float(self.values @ self.values) + self.slack
        self.alpha = 0.0


def _descend(rows: list[_TrainingRow]) -> tuple[float, Floats]:
    """The intercept, and the weight of each term by its number."""
    import numpy as np  # noqa: PLC0415 - 0.3 s

    intercept, weights = 0.0, np.zeros(len(term_numbers()))
    order = random.Random(0)
    for _ in range(PASSES):
        order.shuffle(rows)
        largest = 0.0
        for row in rows:
            margin = intercept + float(weights.take(row.numbers) @ row.values)
            gradient = row.sign * margin - 1 + row.slack * row.alpha
            if row.alpha == 0 and gradient >= 0:
                continue
            largest = max(largest, abs(gradient))
            before = row.alpha
            row.alpha = max(before - gradient / row.curvature, 0.0)
            step = (row.alpha - before) * row.sign
            intercept += step
            weights[row.numbers] += step * row.values
        if largest < STILL:
            break
    return intercept, weights

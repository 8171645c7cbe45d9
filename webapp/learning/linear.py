"""A linear model applied from a dictionary of weights; `tests/catalog/train_links.py` writes it."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from webapp.learning.tfidf import DATA, Vector, dot


@dataclass(frozen=True)
class Linear:
    """Weights of terms, and of their combination with phrases.

    `combination` has the intercept and the weights of: the terms' log-odds, and the phrases
    (`phrase_features`) in the title, of the own work, elsewhere and against.
    """

    intercept: float
    weights: Mapping[str, float]
    combination: tuple[float, ...] = (0.0, 1.0, *4 * (0.0,))

    def log_odds(self, vector: Vector) -> float:
        """The log-odds that a paper belongs to the class."""
        return self.intercept + dot(vector, self.weights)

    def with_phrases(self, vector: Vector, phrases: Sequence[float]) -> float:
        """The log-odds by terms and phrases."""
        values = (1.0, self.log_odds(vector), *phrase_features(phrases))
        return sum(weight * value for weight, value in zip(self.combination, values, strict=True))

    def parts(self, vector: Vector) -> list[tuple[str, float]]:
        """The contribution of each term to the log-odds, the largest first."""
        parts = [(t, value * self.weights[t]) for t, value in vector.items() if t in self.weights]
        return sorted(parts, key=lambda part: (-abs(part[1]), part[0]))


def pruned(model: Linear, terms: int) -> Linear:
    """The model with its largest weights alone."""
    largest = sorted(model.weights.items(), key=lambda item: (-abs(item[1]), item[0]))[:terms]
    return Linear(model.intercept, dict(largest), model.combination)


def phrase_features(phrases: Sequence[float]) -> list[float]:
    """The scores of phrases on a logarithmic scale, so that repetitions count less."""
    return [math.log1p(score) for score in phrases]


@cache
def models() -> Mapping[str, Linear]:
    """The trained models by the slug of their method; empty if none was trained."""
    path = DATA / "weights.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    return {
        slug: Linear(model["intercept"], model["weights"], tuple(model["combination"]))
        for slug, model in stored.items()
    }


def probability(log_odds: float) -> float:
    """The logistic function, safe for large arguments."""
    return 0.5 * (1 + math.tanh(log_odds / 2))

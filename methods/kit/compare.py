"""Errors between two results. NaN stays NaN: a check must fail on it."""

from collections.abc import Sequence

import torch
from torch import Tensor


def difference(ours: Tensor, expected: Tensor) -> float:
    """The largest absolute difference; NaN where there is one."""
    return float((ours - expected).detach().abs().max())


def relative(ours: Tensor, expected: Tensor, least: float = 1e-3) -> float:
    """|ours - expected| / |expected| in Euclidean norm, float64; |expected| is at least `least`."""
    ours, expected = ours.detach().double(), expected.detach().double()
    return float((ours - expected).norm() / max(float(expected.norm()), least))


def largest(errors: Sequence[float]) -> float:
    """The largest, or NaN if there is one: the built-in `max` would pass over it."""
    return float(torch.tensor(errors, dtype=torch.float64).max())

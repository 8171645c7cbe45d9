"""Errors between two results. NaN stays NaN: a check must fail on it."""

from collections.abc import Sequence

import torch
from torch import Tensor


def difference(ours: Tensor, wanted: Tensor) -> float:
    """The largest absolute difference; NaN where there is one."""
    return float((ours - wanted).detach().abs().max())


def relative(ours: Tensor, wanted: Tensor, least: float = 1e-3) -> float:
    """|ours - wanted| / |wanted| in Euclidean norm and float64; |wanted| counts as `least`."""
    ours, wanted = ours.detach().double(), wanted.detach().double()
    return float((ours - wanted).norm() / max(float(wanted.norm()), least))


def largest(errors: Sequence[float]) -> float:
    """The largest, or NaN if there is one: the built-in `max` would pass over it."""
    return float(torch.tensor(errors, dtype=torch.float64).max())

"""Rows of a batch picked by their places."""

from torch import Tensor


def take(x: Tensor, index: Tensor) -> Tensor:
    r"""Rows of x (B, n, ...) at i (B, k): (B, k, ...).

    Equation: $y_{bj} = x_{b, i_{bj}}$
    """
    return x.gather(1, wide(index, x))


def wide(index: Tensor, x: Tensor) -> Tensor:
    r"""Places (B, k) for gathering whole rows of (B, n, ...): (B, k, ...).

    Equation: $y_{bjc} = i_{bj}$ for every place c inside a row
    """
    whole = x.shape[2:]
    return index.reshape(*index.shape, *(1 for _ in whole)).expand(-1, -1, *whole)

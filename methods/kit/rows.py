"""Rows of a batch picked by their places."""

from torch import Tensor


def take(x: Tensor, index: Tensor) -> Tensor:
    r"""Rows of x (B, n, d) at i (B, k): (B, k, d).

    Equation: $y_{bj} = x_{b, i_{bj}}$
    """
    return x.gather(1, wide(index, x))


def wide(index: Tensor, x: Tensor) -> Tensor:
    r"""Places (B, k) for gathering whole vectors of (B, n, d): (B, k, d).

    Equation: $y_{bjc} = i_{bj}, \quad 0 \le c < d$
    """
    return index[..., None].expand(-1, -1, x.shape[-1])

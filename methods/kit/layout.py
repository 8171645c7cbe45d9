"""Memory layout of attention's results: the projection that follows needs no copy."""

from torch import Tensor


def like(x: Tensor) -> Tensor:
    """Empty (batch, heads, n, d) as x, with the numbers of a token's heads side by side."""
    batch, heads, n, d = x.shape
    return x.new_empty(batch, n, heads, d).transpose(1, 2)


def fitted(x: Tensor, target: Tensor) -> Tensor:
    """(batch, heads, n, d or more) in the shape and type of `target`, laid out as `like` does."""
    if x.shape == target.shape and x.dtype == target.dtype:
        return x
    return like(target).copy_(x[..., : target.shape[3]])

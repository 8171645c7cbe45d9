"""Gumbel noise and straight-through gradients: hard choices that can be learnt.

Gumbel-softmax and its straight-through form: Jang et al., arXiv:1611.01144.
"""

import torch
from torch import Tensor


def gumbel(like: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    r"""Standard Gumbel noise in the type of `like`, of its shape or of `shape`.

    Drawn from torch's global generator, in single precision at least: in half precision u has a
    few hundred values, and so would g.

    Equation: $g = -\log(-\log u), \quad u \sim U(0, 1)$
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    u = torch.rand(like.shape if shape is None else shape, dtype=dtype, device=like.device)
    tiny = torch.finfo(dtype).tiny
    return -(-u.clamp_min(tiny).log()).clamp_min(tiny).log().to(like.dtype)


def logistic(like: Tensor) -> Tensor:
    r"""The difference of two Gumbel variables, (...) `like` another, by torch's global generator.

    Drawn in single precision at least, as `gumbel`.

    Equation: $g_1 - g_2 = \log u - \log (1 - u)$
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    u = torch.rand_like(like, dtype=dtype).clamp(1e-6, 1 - 1e-6)
    return (u.log() - (-u).log1p()).to(like.dtype)


def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    r"""The value of `hard`, to the last bit, with the gradient of `soft`.

    Equation: $D = \mathrm{hard} + \mathrm{soft} - \mathrm{sg}(\mathrm{soft})$
    """
    return hard + (soft - soft.detach())  # hard + soft - soft would round

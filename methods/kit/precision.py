"""Operations that stay in single precision, whatever the precision of the model around them."""

from typing import Any

import torch
from torch import Tensor


def unrounded(part: Any, h: Tensor) -> Tensor:
    r"""An `nn.Linear` in the precision of its weights, also under autocast: (..., n) -> (..., m).

    For logits that are compared: in bfloat16 the two largest of 4,096 are equal at 3 positions of
    100, and rounding decides between them.

    Equation: $y = W x + b$
    """
    with torch.autocast(h.device.type, enabled=False):
        y: Tensor = part(h.to(part.weight.dtype))
    return y


def at_least_single(x: Tensor) -> Tensor:
    """`x` of half precision in single precision: a log-softmax or a sum in half loses digits."""
    return x.to(torch.promote_types(x.dtype, torch.float32))

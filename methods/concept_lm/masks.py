"""Who may look at whom.

The one line that makes v2 trainable in a single pass is `deep_allow`: a query sees the concepts up
to itself and the tokens of its own segment, which is exactly what the step-by-step loop would show
it, because the set only changes where a concept appears.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def window_allow(n: int, window: int, device: torch.device) -> Tensor:
    r"""Causal attention that looks back over `window` tokens: (n, n) bool.

    Equation: $\mathrm{allow}(q, k) = 0 \le q - k < w$
    """
    return torch.ones(n, n, dtype=torch.bool, device=device).tril().triu(1 - window)


def deep_allow(is_concept: Tensor) -> Tensor:
    r"""The deep layers' mask in a packed pass.

    allow(q, k) = k <= q and (is_concept[k] or seg[k] == seg[q]),   seg = cumsum(is_concept)

    Equation: $\mathrm{allow}(q, k) = k \le q \wedge (c_k \vee \mathrm{seg}_k = \mathrm{seg}_q)$

    Args:
        is_concept: (B, T) bool.

    Returns:
        (B, T, T) bool, queries before keys.
    """
    seg = is_concept.long().cumsum(1)  # (B, T)
    return (is_concept[:, None, :] | (seg[:, None, :] == seg[:, :, None])).tril()


def with_readout(allow: Tensor, is_concept: Tensor, packed: Tensor) -> Tensor:
    r"""Extend `deep_allow` by one extra query for each concept, which nobody else can see.

    Equation: $\mathrm{allow}(T + j, k) = c_k \wedge k \le p_j, \quad
    \mathrm{allow}(q, T + j) = (q = T + j)$

    Args:
        allow: (B, T, T) bool from `deep_allow`.
        is_concept: (B, T) bool.
        packed: (B, C) the position of each concept, 0 in unused slots, whose results nobody reads.

    Returns:
        (B, T + C, T + C) bool. The extra query of concept p sees concepts <= p and itself.
    """
    T, C = is_concept.shape[1], packed.shape[1]
    index = torch.arange(T, device=allow.device)
    sees = is_concept[:, None] & (index <= packed[..., None])  # (B, C, T)
    whole = F.pad(torch.cat([allow, sees], 1), (0, C))  # (B, T + C, T + C)
    whole[:, T:, T:] = torch.eye(C, dtype=torch.bool, device=allow.device)
    return whole


def block_mask(is_concept: Tensor) -> Any:
    r"""`deep_allow` as a FlexAttention block mask: computed blockwise, never stored as (T, T).

    T must be padded to a multiple of 128 for the compiled kernel to reuse one graph.

    is_concept is (B, T) bool; every head has the same mask.

    Equation: $\mathrm{allow}(q, k) = k \le q \wedge (c_k \vee \mathrm{seg}_k = \mathrm{seg}_q)$
    """
    # torch.nn.attention.flex_attention pulls in torch._dynamo, over a second of import.
    from torch.nn.attention.flex_attention import create_block_mask  # noqa: PLC0415

    seg = is_concept.long().cumsum(1)
    B, T = is_concept.shape

    def allow(b: Tensor, _h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (is_concept[b, k] | (seg[b, k] == seg[b, q]))

    return create_block_mask(allow, B, None, T, T, device=str(is_concept.device))

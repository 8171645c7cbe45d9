"""Grouped-head sparse attention on a GPU: two dense-kernel calls, one for each kind of head.

Local heads: FlexAttention, compiled, with a cached sliding BlockMask, which skips every 128-block
outside the window.

Global heads: the stride fold. Write query i = t s + r. It sees anchors 0 .. t whatever r is, so
folding the s offsets r into heads turns strided anchors into *plain* causal attention of length
n / s, s query heads to one key head, on any flash kernel, forward and backward, without a mask:

    q (b, h, n, d) -> (b h, s, n / s, d),   k, v (b, h, n, d) -> (b h, 1, n / s, d).

Never one call with a mask over both: anchors every 10 tokens touch every 128-block.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from methods.sparse_attention.config import GlobalGroup, Group, LocalGroup
from methods.sparse_attention.ops_cpu import attend_portable
from methods.sparse_attention.tiles import pool_anchors


def attend(q: Tensor, k: Tensor, v: Tensor, groups: tuple[Group, ...]) -> Tensor:
    r"""Sparse attention by FlexAttention and the stride fold.

    Equation: $o^h_i = \frac{\sum_j M^h_{ij} e^{s^h_{ij}} v^h_j}{\sum_j M^h_{ij} e^{s^h_{ij}}},
    \quad s^h_{ij} = \frac{q^h_i \cdot k^h_j}{\sqrt{d}}$

    M^h is a window for the heads of a local group, strided anchors for those of a global one.
    Arguments and result as `ops_cpu.attend`. Also runs on the CPU, uncompiled and forward only:
    FlexAttention has no backward there.
    """
    outs = []
    for group in groups:
        heads = slice(group.start, group.stop)
        parts = q[:, heads], k[:, heads], v[:, heads]
        if isinstance(group, LocalGroup):
            outs.append(sliding_window(*parts, group))
        elif group.include_self:
            # The own key needs the logsumexp of the fold, which SDPA does not give: use tiles.
            alone = GlobalGroup(0, parts[0].shape[1], group.stride, group.anchor, include_self=True)
            outs.append(attend_portable(*parts, (alone,)))
        else:
            outs.append(strided_anchors(*parts, group))
    return torch.cat(outs, dim=1)


def sliding_window(q: Tensor, k: Tensor, v: Tensor, group: LocalGroup) -> Tensor:
    r"""Windowed attention, (batch, heads, n, d) -> the same, by FlexAttention.

    Equation: $o_i = \sum_{j = a_i}^{i} \frac{e^{s_{ij}}}{\sum_{l = a_i}^{i} e^{s_{il}}} v_j, \quad
    a_i = \max(0, (\lfloor i / b \rfloor - \lceil w / b \rceil + 1) b)$

    b is the block, 1 where the window is not counted in blocks.
    """
    mask = _block_mask(group.window, group.block, q.shape[2], str(q.device))
    out: Tensor = _flex(q.is_cuda)(q, k, v, block_mask=mask)
    return out


def strided_anchors(q: Tensor, k: Tensor, v: Tensor, group: GlobalGroup) -> Tensor:
    r"""Attention to every s-th token, (batch, heads, n, d) -> the same, by the stride fold.

    Equation: $o_{t s + r} = \sum_{u \le t} \frac{e^{q_{t s + r} \cdot k_{u s} / \sqrt{d}}}
    {\sum_{u' \le t} e^{q_{t s + r} \cdot k_{u' s} / \sqrt{d}}} v_{u s}, \quad 0 \le r < s$

    Pooled, the means of the s tokens that end at u s stand in the place of its key and value.
    """
    b, h, n, d = q.shape
    s = group.stride
    if group.anchor == "pool":
        k, v = pool_anchors(k, s), pool_anchors(v, s)  # (b, h, ceil(n / s), d)
    else:
        k, v = k[:, :, ::s], v[:, :, ::s]
    m, rest = divmod(n, s)
    outs = []
    if m:
        folded = torch.unflatten(q[:, :, : m * s], 2, (m, s)).transpose(2, 3)  # (b, h, s, m, d)
        keys, values = (x[:, :, None, :m].reshape(b * h, 1, m, d) for x in (k, v))
        out = F.scaled_dot_product_attention(
            folded.reshape(b * h, s, m, d), keys, values, is_causal=True, enable_gqa=True
        )
        outs.append(out.transpose(1, 2).reshape(b, h, m * s, d))
    if rest:  # the last, unfinished stride: all anchors are in its past
        outs.append(F.scaled_dot_product_attention(q[:, :, m * s :], k, v))
    return torch.cat(outs, dim=2)


@lru_cache(maxsize=32)
def _block_mask(window: int, block: int | None, n: int, device: str) -> BlockMask:
    """The sliding window's BlockMask for one length; building it costs more than using it."""
    if block is None:

        def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return (j <= i) & (i - j < window)
    else:
        blocks = -(-window // block)

        def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return (j <= i) & (i // block - j // block < blocks)

    return create_block_mask(visible, None, None, n, n, device=device)


@lru_cache(maxsize=2)
def _flex(compiled: bool) -> Any:
    if compiled:
        return torch.compile(flex_attention, dynamic=False)
    # Eager on the CPU is how the checks see these masks at all; that it is slow, they know.
    warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
    return flex_attention

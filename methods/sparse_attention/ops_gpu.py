"""Grouped-head sparse attention on a GPU: two FlexAttention calls, one for each kind of head.

Local heads: n queries and n keys under a sliding BlockMask, which skips every 128-block outside the
window. Global heads: n queries and the n / s anchors alone, a rectangle under `j s <= i`: no fold,
no remainder, no copy of the queries.

Never one call with a mask over both: anchors every 10 tokens touch every 128-block.

FlexAttention is compiled, anew for each shape, and must not fall back: uncompiled it holds all
n x n scores. On the CPU it has no backward when compiled; there its definition runs, for checks.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention as uncompiled_flex
from torch.nn.attention import flex_attention as flex

from .config import GlobalGroup, Group
from .kernel import Chosen
from .tiles import added_own, key_side

SHAPES = 512  # compiled at most; beyond, an error


def attend(
    q: Tensor, k: Tensor, v: Tensor, groups: tuple[Group, ...], *, compiled: bool | None = None
) -> Tensor:
    r"""Sparse attention by FlexAttention, (batch, heads, n, d) -> the same.

    Equation: $o^h_i = \frac{\sum_j M^h_{ij} e^{s^h_{ij}} v^h_j}{\sum_j M^h_{ij} e^{s^h_{ij}}},
    \quad s^h_{ij} = \frac{q^h_i \cdot k^h_j}{\sqrt{d}}$

    M^h is a window for the heads of a local group, strided anchors for those of a global one.
    k and v are (batch, kv_heads, n, d); query heads share them in equal runs. `compiled` is on a
    GPU; compiled on the CPU it is forward only.
    """
    sharing = q.shape[1] // k.shape[1]
    compiled = q.is_cuda if compiled is None else compiled
    outs = []
    for group in groups:
        heads, shared = (slice(group.start // by, group.stop // by) for by in (1, sharing))
        parts = q[:, heads], k[:, shared], v[:, shared]
        outs.append(attend_group(*parts, group, compiled=compiled))
    return torch.cat(outs, dim=1)


def attend_group(
    q: Tensor, k: Tensor, v: Tensor, group: Group, *, compiled: bool = False
) -> Tensor:
    r"""Attention of one group's heads, (batch, heads, n, d) -> the same. To a window:

    Equation: $o_i = \sum_{j = a_i}^{i} \frac{e^{s_{ij}}}{\sum_{l = a_i}^{i} e^{s_{il}}} v_j, \quad
    a_i = \max(0, (\lfloor i / b \rfloor - \lceil w / b \rceil + 1) b)$

    b is the block, 1 where the window is not counted in blocks. To every s-th token:

    Equation: $o_i = \sum_{u s \le i} \frac{e^{q_i \cdot k_{u s} / \sqrt{d}}}
    {\sum_{u' s \le i} e^{q_i \cdot k_{u' s} / \sqrt{d}}} v_{u s}$

    Pooled, the means of the s tokens that end at u s stand in the place of its key and value. Where
    a token sees itself too, its own key comes in by the logsumexp L:

    Equation: $L' = \log(e^L + e^{s_{ii}}), \quad o'_i = e^{L - L'} o_i + e^{s_{ii} - L'} v_i$
    """
    keys, values = key_side(k, group), key_side(v, group)
    if isinstance(group, GlobalGroup) and group.include_self:
        out, lse = _flex(q, keys, values, group, compiled=compiled, with_lse=True)
        return added_own(out, lse, q, k, v, group=group)[0]
    return _flex(q, keys, values, group, compiled=compiled)[0]


def attend_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    chosen: Chosen,
    ranges: Tensor,
    scale: float,
    compiled: bool | None = None,
) -> Tensor:
    r"""Attention to chosen blocks by FlexAttention under their block mask: (batch, heads, n, d).

    Equation: $o_i = \sum_j M_{ij} \frac{e^{s_{ij}}}{\sum_l M_{il} e^{s_{il}}} v_j, \quad
    M_{ij} = [\, \lfloor j / b_k \rfloor \in C_{\lfloor i / b_q \rfloor} \wedge a_i \le j < e_i \,]$

    a and e are `ranges` (1, 2, n). Compiled, as on a GPU, query and key blocks must be multiples of
    128, the size of its tiles.
    """
    blocks, (choosing, runs) = chosen.blocks, chosen.blocks.shape[1:3]
    heads, n_k = q.shape[1], k.shape[2]
    columns = -(-n_k // chosen.key_block)
    table = torch.zeros(*blocks.shape[:3], columns + 1, dtype=torch.bool, device=q.device)
    table.scatter_(3, blocks.long().clamp(-1, columns - 1) % (columns + 1), True)
    table = table[..., :columns].expand(q.shape[0], -1, -1, -1)  # without the column of no block
    (first, end), together = ranges[0], heads // choosing

    def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        row, column = i // chosen.query_block, j // chosen.key_block
        listed = table[b, h // together, row.clamp(max=runs - 1), column.clamp(max=columns - 1)]
        at = i.clamp(max=len(first) - 1)
        seen: Tensor = listed & (j >= first[at]) & (j < end[at])
        return seen

    by_head = table.repeat_interleave(together, 1)
    order = (~by_head).int().argsort(dim=-1, stable=True).int()  # the chosen ones first
    counts = by_head.sum(-1, dtype=torch.int32)
    mask = flex.BlockMask.from_kv_blocks(
        counts,
        order,
        BLOCK_SIZE=(chosen.query_block, chosen.key_block),
        mask_mod=visible,
        seq_lengths=(q.shape[2], n_k),
    )
    if q.is_cuda if compiled is None else compiled:
        found: Tensor = compiled_flex()(q, k, v, block_mask=mask, scale=scale, enable_gqa=True)
        return found
    out: Tensor = uncompiled_flex(q, k, v, flex._identity, mask.as_tuple(), scale, {})[0]
    return out


@lru_cache(maxsize=64)
def _block_mask(group: Group, n: int, device: str) -> flex.BlockMask:
    """What a group's heads see of its keys at one length; building it costs more than using it."""
    keys = n
    if isinstance(group, GlobalGroup):
        stride, keys = group.stride, group.anchors(n)

        def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return j * stride <= i
    else:
        block, blocks = group.block, -(-group.window // group.block)

        def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return (j <= i) & (i // block - j // block < blocks)

    with torch.inference_mode(False):  # it is kept, and autograd refuses what that mode makes
        return flex.create_block_mask(visible, None, None, n, keys, device=device)


@lru_cache(maxsize=4)
def compiled_flex(backend: str | Callable[..., Any] = "inductor") -> Any:
    """FlexAttention, compiled for each shape; beyond `SHAPES` of them an error, no silent eager."""
    # torch.compile's overloads do not name these two.
    limits: dict[str, Any] = {"recompile_limit": SHAPES, "isolate_recompiles": True}
    return torch.compile(
        flex.flex_attention, backend=backend, dynamic=False, fullgraph=True, **limits
    )


def _flex(
    q: Tensor, k: Tensor, v: Tensor, group: Group, *, compiled: bool, with_lse: bool = False
) -> tuple[Tensor, Tensor]:
    """Attention (b, h, n, d) under a group's mask and, where asked for, its logsumexp (b, h, n).

    That is in float32 or float64; FlexAttention compiled for the CPU cannot return it.
    """
    mask = _block_mask(replace(group, start=0, stop=1), q.shape[2], str(q.device))
    if compiled:
        wanted = flex.AuxRequest(lse=with_lse)
        out, aux = compiled_flex()(q, k, v, block_mask=mask, enable_gqa=True, return_aux=wanted)
        return out, aux.lse
    scale = 1 / math.sqrt(q.shape[-1])
    out, log2, _ = uncompiled_flex(q, k, v, flex._identity, mask.as_tuple(), scale, {})
    return out, log2 * math.log(2)

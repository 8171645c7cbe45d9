"""The operator by FlexAttention: a call for each group of heads, under a block mask of its pattern.

A group's keys are sliced, so that its mask is narrow: a band for windows, which skips every tile of
128 keys outside it; for anchors a rectangle of n queries and the n / s anchors alone. Never one
mask over both: anchors every 10 tokens touch every tile.

FlexAttention is compiled, anew for each shape, and must not fall back: uncompiled it holds all
n x n scores. On the CPU it has no backward when compiled; there its definition runs, for checks.
"""

import inspect
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention as uncompiled_flex
from torch.nn.attention import flex_attention as flex

from ..errors import InputError
from .pattern import Pattern, Scoring

SHAPES = 512  # compiled at most; beyond, an error


def attend(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scoring: Scoring, *,
    compiled: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    r"""Output (batch, heads, n_q, d) and logsumexp (batch, heads, n_q) of q, k and v.

    Equation: $o_i = \sum_j M_{ij} \frac{e^{s_{ij}}}{\sum_l M_{il} e^{s_{il}}} v_j, \quad
    M_{ij} = [\, \lfloor j / b_k \rfloor \in C_{\lfloor i / b_q \rfloor} \wedge a_i \le j < e_i \,]$

    Compiled, as on a GPU, query and key blocks must be multiples of 128, the size of its tiles; on
    the CPU that is forward only, and gives no logsumexp. Raises InputError for sinks, a cap of the
    scores, or ranges that differ by sample.
    """
    if scoring.sinks is not None or scoring.cap or pattern.ranges.shape[0] > 1:
        raise InputError("backend 'flex' takes no sinks, softcap or key_range")
    compiled, outs, lses = q.is_cuda if compiled is None else compiled, [], []
    for g, (heads, shared, stride) in enumerate(pattern.parts(k.shape[1])):
        qkv = q[:, heads], k[:, shared, ::stride], v[:, shared, ::stride]
        if pattern.blocks is None:
            mask = range_mask(pattern.ranges, g, qkv[1].shape[2])
        else:
            mask = _chosen_mask(q, k.shape[2], pattern)
        if compiled:
            request = flex.AuxRequest(lse=q.is_cuda)
            options = {"block_mask": mask, "scale": scoring.scale, "enable_gqa": True}
            out, aux = compiled_flex()(*qkv, **options, return_aux=request)
            lse = aux.lse
        else:
            tuple_ = mask.as_tuple()
            out, log2, _ = uncompiled_flex(*qkv, flex._identity, tuple_, scoring.scale, {})
            lse = log2 * math.log(2)
        outs.append(out)
        lses.append(out[..., 0] if lse is None else lse)
    return torch.cat(outs, dim=1), torch.cat(lses, dim=1)


@lru_cache(maxsize=64)
def range_mask(ranges: Tensor, group: int, keys: int) -> flex.BlockMask:
    r"""Block mask of a group's queries and keys; cached, since building costs more than using it.

    Equation: $M_{ij} = [\, a_i \le j < e_i \,]$

    `pattern` remembers the ranges (1, groups, 2, n) of a length, too: the same tensor comes again.
    """
    first, end = ranges[0, group]

    def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        row = i.clamp(max=len(first) - 1)
        seen: Tensor = (j >= first[row]) & (j < end[row])
        return seen

    with torch.inference_mode(False):  # it is kept, and autograd refuses what that mode makes
        return flex.create_block_mask(visible, None, None, len(first), keys, device=ranges.device)


def _chosen_mask(q: Tensor, n_k: int, pattern: Pattern) -> flex.BlockMask:
    """The block mask of chosen blocks."""
    blocks, (first, end) = pattern.blocks, pattern.ranges[0, 0]
    assert blocks is not None
    runs, columns = blocks.shape[2], -(-n_k // pattern.key_block)
    table = torch.zeros(*blocks.shape[:3], columns + 1, dtype=torch.bool, device=q.device)
    table.scatter_(3, blocks.long().clamp(-1, columns - 1) % (columns + 1), True)
    table = table[..., :columns].expand(q.shape[0], -1, -1, -1)  # without the column of no block
    table = table.repeat_interleave(q.shape[1] // blocks.shape[1], 1)

    def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        row, column = i // pattern.query_block, j // pattern.key_block
        listed = table[b, h, row.clamp(max=runs - 1), column.clamp(max=columns - 1)]
        query = i.clamp(max=len(first) - 1)
        seen: Tensor = listed & (j >= first[query]) & (j < end[query])
        return seen

    return flex.BlockMask.from_kv_blocks(
        table.sum(-1, dtype=torch.int32),
        (~table).int().argsort(dim=-1, stable=True).int(),  # the chosen ones first
        BLOCK_SIZE=(pattern.query_block, pattern.key_block),
        mask_mod=visible,
        seq_lengths=(q.shape[2], n_k),
    )


@lru_cache(maxsize=4)
def compiled_flex(backend: str | Callable[..., Any] = "inductor") -> Any:
    """FlexAttention, compiled for each shape; beyond `SHAPES` of them an error, no silent eager."""
    limits: dict[str, Any] = {}
    if "recompile_limit" in inspect.signature(torch.compile).parameters:
        limits = {"recompile_limit": SHAPES, "isolate_recompiles": True}
    else:  # before torch 2.12 the limit is the process's
        dynamo: Any = torch._dynamo.config
        dynamo.recompile_limit = max(dynamo.recompile_limit, SHAPES)
        dynamo.accumulated_recompile_limit = max(dynamo.accumulated_recompile_limit, SHAPES)
    return torch.compile(
        flex.flex_attention, backend=backend, dynamic=False, fullgraph=True, **limits
    )

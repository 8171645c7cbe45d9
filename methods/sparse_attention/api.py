"""The operator for groups of heads: `sparse_attention(q, k, v, config)`, padded or not."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from ..errors import InputError
from . import pattern
from .block_sparse import INTEGERS, Backend, attend, check_inputs
from .config import SparseAttentionConfig, head_groups
from .oracle import oracle_attention
from .pattern import Scoring

PaddingSide = Literal["right", "left"]


def sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    config: SparseAttentionConfig,
    *,
    key_lengths: Tensor | None = None,
    padding_side: PaddingSide = "right",
    context: int | None = None,
    backend: Backend | Literal["reference"] = "auto",
) -> Tensor:
    r"""Causal attention with sliding windows in some heads and strided anchors in the others.

    Softmax and logsumexp run in float32 (float64 for float64 inputs).

    Equation: $o_{hi} = \frac{\sum_j M^h_{ij} e^{s_{hij}} v_{gj}}{\sum_j M^h_{ij} e^{s_{hij}}},
    \quad s_{hij} = \frac{q_{hi} \cdot k_{gj}}{\sqrt{d}}, \quad g = \lfloor h H_{kv} / H \rfloor$

    M^h is the mask of head h's group (`oracle.group_mask`).

    Args:
        q: (batch, heads, n, d_head), float32, float64, bfloat16 or float16.
        k: (batch, kv_heads, n, d_head); `kv_heads` divides `heads` (grouped-query attention).
        v: as k.
        config: the heads and what they see; its heads must add up to q's.
        key_lengths: (batch,) integers, the real tokens of each sample. Padding is never attended;
            its rows are 0 in the output, and nothing flows back into it.
        padding_side: where the padding stands. Positions count from a sample's first real token.
        context: the length that an adaptive window is resolved for; n if not given. Where lengths
            vary, give the model's, or a longer input changes what earlier tokens see.
        backend: as of `block_sparse_attention`, but that "auto" is "flex" on CUDA where there are
            gradients, of which Triton's were slower; "reference" is the float64 definition.

    Returns:
        (batch, heads, n, d_head) in q's dtype.

    Raises:
        InputError: if shapes, dtypes, devices, head counts or lengths do not fit together.
    """
    key_lengths = validated(q, k, v, key_lengths, padding_side)
    heads, n = q.shape[1], q.shape[2]
    context = n if context is None else context
    groups = head_groups(config, heads, context, k.shape[1])
    if key_lengths is not None:
        real = torch.arange(n, device=q.device) < key_lengths[:, None]  # (batch, n)
        if padding_side == "left":
            q, k, v = (shifted(x, key_lengths - n) for x in (q, k, v))
        # Zeros in the padding, so that not even an infinity there can reach a real token.
        q, k, v = (x.masked_fill(~real[:, None, :, None], 0.0) for x in (q, k, v))

    trained = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if backend == "auto" and trained and q.is_cuda and q.dtype != torch.float64:
        backend = "flex"
    if backend == "reference":
        out = oracle_attention(q, k, v, config, context=context).to(q.dtype)
    else:
        read = pattern.of_groups(groups, n, str(q.device))
        out, _ = attend(q, k, v, read, Scoring(1 / math.sqrt(q.shape[3])), backend)

    if key_lengths is not None:
        out = out.masked_fill(~real[:, None, :, None], 0.0)
        if padding_side == "left":
            out = shifted(out, n - key_lengths)
    return out


def shifted(x: Tensor, by: Tensor) -> Tensor:
    r"""Move the rows of each sample in (batch, heads, n, d) towards the end, or the start if < 0.

    Equation: $y_{bhi} = x_{b, h, i - m_b} \;\mathrm{if}\; 0 \le i - m_b < n, \;\mathrm{else}\; 0$

    m is `by` (batch,).
    """
    n = x.shape[2]
    source = torch.arange(n, device=x.device) - by[:, None]  # (batch, n)
    outside = ((source < 0) | (source >= n))[:, None, :, None]  # (batch, 1, n, 1)
    rows = source.clamp(0, n - 1)[:, None, :, None].expand_as(x)  # (batch, heads, n, d)
    return x.gather(2, rows).masked_fill(outside, 0.0)


def validated(
    q: Tensor, k: Tensor, v: Tensor, key_lengths: Tensor | None, padding_side: str
) -> Tensor | None:
    r"""Check the inputs; return the lengths (batch,) as int64 on q's device, None if not given.

    Equation: $0 \le l_b \le n$

    Raises:
        InputError: for shapes, dtypes, devices or lengths that do not fit together.
    """
    check_inputs(q, k, v)
    if k.shape[2] != q.shape[2]:
        raise InputError(f"{q.shape[2]} queries have {k.shape[2]} keys; there must be as many")
    if padding_side not in get_args(PaddingSide):
        raise InputError(f"padding_side must be 'right' or 'left', not {padding_side!r}")
    if key_lengths is None:
        return None
    if key_lengths.shape != q.shape[:1] or key_lengths.dtype not in INTEGERS:
        given = f"{tuple(key_lengths.shape)} {key_lengths.dtype}"
        raise InputError(f"key_lengths must be ({q.shape[0]},) integers, not {given}")
    if bool((key_lengths < 0).any()) or bool((key_lengths > q.shape[2]).any()):
        raise InputError(f"key_lengths must lie in 0 .. {q.shape[2]}, not {key_lengths.tolist()}")
    return key_lengths.to(q.device, torch.long)

"""The compiled CPU kernel (`kernel.cpp`): every head and tile of a call in one parallel region.

`build_kernel` builds it; without it `portable` does the same by PyTorch's own calls. It computes in
float32: half precision is cast, and a head size is filled up to a multiple of 16.
"""

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..kit.layout import fitted, like
from .build_kernel import library
from .pattern import Pattern, Scoring

MULTIPLE = 16  # of d_head: two vectors


@lru_cache(maxsize=1)
def loaded() -> bool:
    """True if this process has the kernel; it is never built here."""
    try:
        torch.ops.load_library(library())  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError):  # not built, or for libraries that have been removed since
        return False
    return True


def forward(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scoring: Scoring
) -> tuple[Tensor, Tensor]:
    r"""Output (batch, heads, n_q, d) in q's type and logsumexp (batch, heads, n_q) in float32.

    Equation: $o_i = \frac{\sum_j e^{s_{ij}} v_j}{e^{z} + \sum_j e^{s_{ij}}}, \quad
    L_i = \log ( e^z + \sum_j e^{s_{ij}} )$

    k, v are (batch, kv_heads, n_k, d); j runs over the keys of the pattern, z is the head's sink.
    """
    queries, keys, values = (_padded(x) for x in (q, k, v))
    out, lse = like(queries), queries.new_empty(q.shape[:3])
    arguments = _arguments(queries, keys, values, pattern, scoring)
    torch.ops.assay_sparse_attention.forward(*arguments, out, lse)
    return fitted(out, q), lse


def backward(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scoring: Scoring, *,
    saved: tuple[Tensor, Tensor], grad: Tensor, grad_lse: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    r"""dQ, dK and dV, given what `forward` returned and the gradients of it.

    Equation: $P = e^{S - L}, \quad dV = P^T dO, \quad dS = P \circ (dO V^T - dO \cdot O + dL),
    \quad dQ = \lambda\, dS K, \quad dK = \lambda\, dS^T Q$
    """
    queries, keys, values, out, upstream = (_padded(x) for x in (q, k, v, saved[0], grad))
    dq, dk, dv = like(queries), like(keys).zero_(), like(values).zero_()
    parts = pattern.parts(k.shape[1])
    dks, dvs = ([x[:, shared, ::stride] for _, shared, stride in parts] for x in (dk, dv))
    arguments = _arguments(queries, keys, values, pattern, scoring)
    grad_lse = None if grad_lse is None else grad_lse.contiguous()
    results = saved[1], upstream, grad_lse, dq, dks, dvs
    torch.ops.assay_sparse_attention.backward(*arguments, out, *results)
    return fitted(dq, q), fitted(dk, k), fitted(dv, v)


def _arguments(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scoring: Scoring
) -> tuple[Any, ...]:
    """First arguments of both operators of `kernel.cpp`: keys and values group by group."""
    parts, blocks, sinks = pattern.parts(k.shape[1]), pattern.blocks, scoring.sinks
    keys, values = ([x[:, shared, ::stride] for _, shared, stride in parts] for x in (k, v))
    ranges = [x.contiguous() for x in pattern.ranges.unbind(1)]
    blocks = None if blocks is None else blocks.contiguous()
    sinks = None if sinks is None else sinks.float().contiguous()
    sizes = pattern.query_block, pattern.key_block, scoring.scale, scoring.cap
    return (q, keys, values, ranges, blocks, pattern.origins, sinks, *sizes)


def _padded(x: Tensor) -> Tensor:
    """(batch, heads, n, d) in float32, d filled up with zeros to what the kernel takes."""
    x = x.float() if x.stride(-1) == 1 else x.float().contiguous()
    rest = -x.shape[-1] % MULTIPLE
    return F.pad(x, (0, rest)) if rest else x

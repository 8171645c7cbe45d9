"""The operator on a GPU: Triton kernels that read ranges and lists of blocks.

A program takes the rows of one query block, of all heads that share its keys: with one query to a
block (decoding, choices by query) the heads fill the tile, as in NSA (2502.11089, section 3.4). It
walks through the range of keys that any of its rows sees, or through the chosen ones, `KEYS` of
them at a time whatever the size of a block, so that lists of single keys are as dense as blocks.
Where there are few programs, as for a token that is decoded, several share a walk and their results
are merged (Flash-Decoding, Dao et al. 2023), so that all of the GPU reads keys.

The backward pass walks the same way (as FlashAttention-2, 2307.08691) and adds to dK and dV
atomically: no list of which queries chose a key is made, and the order of these sums, hence their
last bits, may differ between runs.

Without a GPU the kernels run in Triton's interpreter: set TRITON_INTERPRET=1 before the import.
"""

import math
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..kit.layout import fitted, like
from .pattern import Pattern, Scoring

LOG2_E = tl.constexpr(math.log2(math.e))  # scores are computed as powers of 2
RUN = 64  # queries of a program that reads ranges
PROGRAMS = 256  # about two for each processor of a large GPU


def forward(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scoring: Scoring
) -> tuple[Tensor, Tensor]:
    r"""Output like q and logsumexp (batch, heads, n_q) float32, as `kernel.forward` computes them.

    Equation: $o_i = \frac{\sum_{j \in C_i} e^{s_{ij}} v_j}{e^z + \sum_{j \in C_i} e^{s_{ij}}}$
    """
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    grid, arguments, sizes = _launch(q, k, pattern, scoring, backward=False)
    walk = arguments["most"] * sizes["KEY_BLOCK"] if sizes["LISTED"] else k.shape[2]
    parts = max(1, min(PROGRAMS // (grid[0] * grid[1]), walk // (2 * sizes["KEYS"])))
    outs = like(q)[None] if parts == 1 else q.new_empty(parts, *q.shape, dtype=torch.float32)
    lses = q.new_empty(parts, *q.shape[:3], dtype=torch.float32)
    sinks = scoring.sinks
    arguments["SINKS"] = lses if sinks is None else sinks.float().contiguous()
    arguments |= {"out_step": outs.stride(0), "lse_step": lses.stride(0)}
    with torch.cuda.device_of(q):  # Triton launches on the current device
        tensors = (_strided(x) for x in (q, k, v, outs[0]))
        _forward[*grid, parts](*tensors, lses, **arguments, **sizes, SUNK=sinks is not None)
    return (outs[0], lses[0]) if parts == 1 else _merged(outs, lses, q)


def _merged(outs: Tensor, lses: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    r"""Attention over all keys from that over parts of them (parts, batch, heads, n_q, d or none).

    Equation: $L = \log \sum_p e^{L_p}, \quad o = \sum_p e^{L_p - L} o_p$
    """
    lse = lses.logsumexp(0)  # (batch, heads, n_q)
    share = torch.exp(lses - lse.masked_fill(lse == -math.inf, 0))  # a row may have seen no key
    return like(q).copy_((share[..., None] * outs).sum(0)), lse


def backward(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scoring: Scoring, *,
    saved: tuple[Tensor, Tensor], grad: Tensor, grad_lse: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    r"""dQ, dK and dV, like q (batch, heads, n_q, d), k and v, given what `forward` returned.

    Equation: $P = e^{S - L}, \quad dV = P^T dO, \quad dS = P \circ (dO V^T - dO \cdot O + dL),
    \quad dQ = \lambda\, dS K, \quad dK = \lambda\, dS^T Q$
    """
    q, k, v, grad = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v, grad))
    out, lse = saved
    delta = (grad.float() * out.float()).sum(-1)  # (batch, heads, n_q)
    delta = delta if grad_lse is None else delta - grad_lse
    dq, dk, dv = like(q), *(like(x.float()).zero_() for x in (k, v))
    grid, arguments, sizes = _launch(q, k, pattern, scoring, backward=True)
    with torch.cuda.device_of(q):
        tensors = (_strided(x) for x in (q, k, v, grad, dq, dk, dv))
        _backward[grid](*tensors, lse, delta, **arguments, **sizes)
    return dq, fitted(dk, k), fitted(dv, v)


def _strided(x: Tensor) -> tuple[Any, ...]:
    """A tensor (batch, heads, n, d) and its strides but the last, which is 1."""
    return x, *x.stride()[:3]


@lru_cache(maxsize=64)
def _groups(heads: tuple[int, ...], strides: tuple[int, ...], n: int, device: str) -> Tensor:
    """Group of each head, and the stride of its keys, at most n: (heads, 2) int32."""
    rows = [[g, min(strides[g], n)] for g, count in enumerate(heads) for _ in range(count)]
    with torch.inference_mode(False):  # it is kept, and autograd refuses what that mode makes
        return torch.tensor(rows, dtype=torch.int32, device=device)


def _launch(
    q: Tensor, k: Tensor, pattern: Pattern, scoring: Scoring, *, backward: bool
) -> tuple[tuple[int, int], dict[str, Any], dict[str, Any]]:
    """The grid, the arguments that both kernels take, and their sizes."""
    (batch, heads, n, d), (shared, n_k) = q.shape, k.shape[1:3]
    blocks, origins, ranges = pattern.blocks, pattern.origins, pattern.ranges.contiguous()
    listed, query_block = blocks is not None, pattern.query_block
    if blocks is None:  # heads of a key head walk through its range together
        query_block = min(RUN, triton.next_power_of_2(n))
        choosing, runs, most, blocks = shared, triton.cdiv(n, query_block), 0, ranges
    else:
        if blocks.shape[1] < shared:  # one choice for several key heads
            blocks = blocks.repeat_interleave(shared // blocks.shape[1], 1)
        choosing, runs, most = blocks.shape[1:]
    if origins is None:
        origins = torch.zeros(batch, dtype=torch.int32, device=q.device)
    arguments = {
        "RANGES": ranges,
        "GROUPS": _groups(pattern.heads, pattern.strides, n_k, str(q.device)),
        "BLOCKS": blocks.contiguous(),
        "ORIGINS": origins.contiguous(),
        "ranges_step": 0 if ranges.shape[0] == 1 else ranges.stride(0),
        "blocks_step": 0 if blocks.shape[0] == 1 else choosing * runs * most,
        "n": n,
        "n_k": n_k,
        "heads": heads,
        "choosing": choosing,
        "choosers": choosing // shared,
        "runs": runs,
        "most": most,
        "scale": scoring.scale,
        "cap": scoring.cap,
    }
    rows = heads // choosing * query_block
    tile = min(64, max(16, triton.next_power_of_2(rows)))
    tiles = triton.cdiv(rows, tile)
    sizes = {
        "TILES": tiles,
        "QUERY_BLOCK": query_block,
        "KEY_BLOCK": pattern.key_block,
        "LISTED": listed,
        "CAPPED": bool(scoring.cap),
        "D": d,
        "D_PADDED": max(16, triton.next_power_of_2(d)),
        "ROWS": tile,
        "KEYS": 32 if q.dtype == torch.float32 else 64,
        "num_warps": 8 if backward or q.dtype == torch.float32 else 4,  # so that nothing is spilled
    }
    return (runs * tiles, batch * choosing), arguments, sizes


@triton.jit
def _product(a, b):
    """A product of matrices; of float32 in float32, not in TF32."""
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def _rows(n, heads, choosing, TILES: tl.constexpr, QUERY_BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Sample, choosing head and query block of this program; head, query and reality of rows."""
    run = (tl.program_id(0) // TILES).to(tl.int64)
    sample = (tl.program_id(1) // choosing).to(tl.int64)
    chooser = (tl.program_id(1) % choosing).to(tl.int64)
    row = (tl.program_id(0) % TILES) * ROWS + tl.arange(0, ROWS)
    together = heads // choosing
    head = chooser * together + row // QUERY_BLOCK
    i = run * QUERY_BLOCK + row % QUERY_BLOCK
    return sample, chooser, run, head, i, (row < together * QUERY_BLOCK) & (i < n)


@triton.jit
def _reach(
    RANGES, GROUPS, sample, chooser, i, real, ranges_step, n, n_k, heads, choosing, most,
    LISTED: tl.constexpr, KEY_BLOCK: tl.constexpr,
):  # fmt: skip
    """The stride of the keys, what each row sees, and from where to where the program walks."""
    group = GROUPS + 2 * (chooser * (heads // choosing))
    of_group = RANGES + sample * ranges_step + tl.load(group) * 2 * n
    first = tl.load(of_group + i, mask=real, other=0)
    end = tl.load(of_group + n + i, mask=real, other=0)
    if LISTED:
        low, high = 0, most * KEY_BLOCK
    else:
        low, high = tl.min(tl.where(real, first, n_k), 0), tl.max(tl.where(real, end, 0), 0)
    return tl.load(group + 1).to(tl.int64), first, end, low, high


@triton.jit
def _keys(
    start, list_, most, origin, high, n_k,
    LISTED: tl.constexpr, KEY_BLOCK: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """The keys at `place` and following of a range or of a list, and which of them there are."""
    flat = start + tl.arange(0, KEYS)
    if LISTED:
        listed = flat // KEY_BLOCK < most
        block = tl.load(list_ + flat // KEY_BLOCK, mask=listed, other=-1).to(tl.int64)
        key = origin + block * KEY_BLOCK + flat % KEY_BLOCK
        there = (block >= 0) & (key < n_k)
    else:
        key, there = flat.to(tl.int64), flat < high
    return key, there


@triton.jit
def _at(x, sample, head, token, D_PADDED: tl.constexpr):
    """Addresses of the numbers of tokens of heads: (tokens, D_PADDED)."""
    start = x[0] + sample * x[1] + head * x[2] + token * x[3]
    return start[:, None] + tl.arange(0, D_PADDED)[None, :]


@triton.jit
def _scores(q, k, scale, cap, CAPPED: tl.constexpr):
    """Scores (rows, keys), and the slope of the cap."""
    scores = _product(q, tl.trans(k)) * scale
    slope = tl.full(scores.shape, 1.0, tl.float32)
    if CAPPED:
        x = tl.minimum(tl.maximum(scores / cap, -20.0), 20.0)
        bent = 1.0 - 2.0 / (tl.exp2(x * (2.0 * LOG2_E)) + 1.0)
        scores, slope = bent * cap, 1.0 - bent * bent
    return scores, slope


@triton.jit
def _forward(
    Q, K, V, OUT, LSE,
    RANGES, GROUPS, BLOCKS, ORIGINS, SINKS, ranges_step, blocks_step, out_step, lse_step, n, n_k,
    heads, choosing, choosers, runs, most, scale, cap,
    TILES: tl.constexpr, QUERY_BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr,
    LISTED: tl.constexpr, CAPPED: tl.constexpr, D: tl.constexpr, D_PADDED: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, SUNK: tl.constexpr,
):  # fmt: skip
    """Output and logsumexp of the rows of one query block, over one part of their keys."""
    sample, chooser, run, head, i, real = _rows(n, heads, choosing, TILES, QUERY_BLOCK, ROWS)
    stride, first, end, low, high = _reach(
        RANGES, GROUPS, sample, chooser, i, real, ranges_step, n, n_k, heads, choosing, most,
        LISTED, KEY_BLOCK,
    )  # fmt: skip
    part = tl.program_id(2).to(tl.int64)
    width = tl.cdiv(tl.cdiv(high - low, tl.num_programs(2)), KEYS) * KEYS
    low += tl.program_id(2) * width
    high = tl.minimum(high, low + width)
    inside = (tl.arange(0, D_PADDED) < D)[None, :]
    q = tl.load(_at(Q, sample, head, i, D_PADDED), mask=real[:, None] & inside, other=0.0)
    list_ = BLOCKS + sample * blocks_step + (chooser * runs + run) * most
    origin, shared = tl.load(ORIGINS + sample), chooser // choosers
    acc = tl.zeros((ROWS, D_PADDED), tl.float32)  # sums of values, by the weights so far
    above = tl.full((ROWS,), -float("inf"), tl.float32)  # the largest score so far
    total = tl.zeros((ROWS,), tl.float32)  # of the weights
    for start in range(low, high, KEYS):
        key, there = _keys(start, list_, most, origin, high, n_k, LISTED, KEY_BLOCK, KEYS)
        if tl.max(there.to(tl.int32), 0) > 0:
            held = there[:, None] & inside
            k = tl.load(_at(K, sample, shared, key * stride, D_PADDED), mask=held, other=0.0)
            v = tl.load(_at(V, sample, shared, key * stride, D_PADDED), mask=held, other=0.0)
            scores, _ = _scores(q, k, scale, cap, CAPPED)
            seen = there[None, :] & (key[None, :] >= first[:, None]) & (key[None, :] < end[:, None])
            scores = tl.where(seen, scores, -float("inf"))
            highest = tl.maximum(above, tl.max(scores, 1))
            shift = tl.where(highest == -float("inf"), 0.0, highest)  # a row may have seen no key
            p = tl.exp2((scores - shift[:, None]) * LOG2_E)
            kept = tl.exp2((above - shift) * LOG2_E)
            acc = acc * kept[:, None] + _product(p.to(v.dtype), v)
            total = total * kept + tl.sum(p, 1)
            above = highest
    if SUNK:
        sink = tl.load(SINKS + head, mask=real & (part == 0), other=-float("inf"))
        highest = tl.maximum(above, sink)
        shift = tl.where(highest == -float("inf"), 0.0, highest)
        kept = tl.exp2((above - shift) * LOG2_E)
        acc = acc * kept[:, None]
        total = total * kept + tl.exp2((sink - shift) * LOG2_E)
        above = highest
    some = total > 0
    whole = tl.where(some, total, 1.0)
    out = acc / whole[:, None]
    stored = out.to(OUT[0].dtype.element_ty)
    place = part * out_step + _at(OUT, sample, head, i, D_PADDED)
    tl.store(place, stored, mask=real[:, None] & inside)
    lse = tl.where(some, above + tl.log2(whole) / LOG2_E, -float("inf"))
    tl.store(LSE + part * lse_step + (sample * heads + head) * n + i, lse, mask=real)


@triton.jit
def _backward(
    Q, K, V, GRAD, DQ, DK, DV, LSE, DELTA,
    RANGES, GROUPS, BLOCKS, ORIGINS, ranges_step, blocks_step, n, n_k, heads, choosing,
    choosers, runs, most, scale, cap,
    TILES: tl.constexpr, QUERY_BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr,
    LISTED: tl.constexpr, CAPPED: tl.constexpr, D: tl.constexpr, D_PADDED: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """dQ of the rows of one query block, and what they add to dK and dV."""
    sample, chooser, run, head, i, real = _rows(n, heads, choosing, TILES, QUERY_BLOCK, ROWS)
    stride, first, end, low, high = _reach(
        RANGES, GROUPS, sample, chooser, i, real, ranges_step, n, n_k, heads, choosing, most,
        LISTED, KEY_BLOCK,
    )  # fmt: skip
    inside = (tl.arange(0, D_PADDED) < D)[None, :]
    rows = real[:, None] & inside
    q = tl.load(_at(Q, sample, head, i, D_PADDED), mask=rows, other=0.0)
    grad = tl.load(_at(GRAD, sample, head, i, D_PADDED), mask=rows, other=0.0)
    at = (sample * heads + head) * n + i
    lse = tl.load(LSE + at, mask=real, other=0.0)
    delta = tl.load(DELTA + at, mask=real, other=0.0)
    list_ = BLOCKS + sample * blocks_step + (chooser * runs + run) * most
    origin, shared = tl.load(ORIGINS + sample), chooser // choosers
    dq = tl.zeros((ROWS, D_PADDED), tl.float32)
    for start in range(low, high, KEYS):
        key, there = _keys(start, list_, most, origin, high, n_k, LISTED, KEY_BLOCK, KEYS)
        if tl.max(there.to(tl.int32), 0) > 0:
            held, token = there[:, None] & inside, key * stride
            k = tl.load(_at(K, sample, shared, token, D_PADDED), mask=held, other=0.0)
            v = tl.load(_at(V, sample, shared, token, D_PADDED), mask=held, other=0.0)
            scores, slope = _scores(q, k, scale, cap, CAPPED)
            seen = there[None, :] & (key[None, :] >= first[:, None]) & (key[None, :] < end[:, None])
            seen = seen & real[:, None]
            scores = tl.where(seen, scores - lse[:, None], -float("inf"))
            p = tl.exp2(scores * LOG2_E)
            ds = p * (_product(grad, tl.trans(v)) - delta[:, None]) * slope
            dq += _product(ds.to(k.dtype), k)
            dv = _product(tl.trans(p.to(grad.dtype)), grad)
            dk = _product(tl.trans(ds.to(q.dtype)), q) * scale
            tl.atomic_add(_at(DV, sample, shared, token, D_PADDED), dv, mask=held)
            tl.atomic_add(_at(DK, sample, shared, token, D_PADDED), dk, mask=held)
    stored = (dq * scale).to(DQ[0].dtype.element_ty)
    tl.store(_at(DQ, sample, head, i, D_PADDED), stored, mask=rows)

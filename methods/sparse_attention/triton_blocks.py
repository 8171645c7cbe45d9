"""Attention to chosen blocks on a GPU: Triton kernels that read lists of blocks.

A program takes the rows of one query block, of all heads that share its choice: with one query to
a block (decoding, choices by query) the heads fill the tile, as in NSA (2502.11089, section 3.4).
It walks through the chosen keys, `KEYS` of them at a time whatever the size of a block, so that
lists of single keys are as dense as lists of blocks.

The backward pass walks the same way and adds to dK and dV atomically: no list of which queries
chose a key is made, and the order of these sums, hence their last bits, may differ between runs.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .kernel import Chosen, Scoring
from .ops_triton import LOG2_E, _placed, _product


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ranges: Tensor,
    *,
    chosen: Chosen,
    sinks: Tensor | None,
    scoring: Scoring,
) -> tuple[Tensor, Tensor]:
    r"""Output like q and logsumexp (batch, heads, n) float32, as `kernel.forward` computes them.

    Equation: $o_i = \frac{\sum_{j \in C_i} e^{s_{ij}} v_j}{e^z + \sum_{j \in C_i} e^{s_{ij}}}$
    """
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    b, h, n, d = q.shape
    out = q.new_empty(b, n, h, d).transpose(1, 2)
    lse = q.new_empty(b, h, n, dtype=torch.float32)
    grid, given, sizes = _launch(q, k, ranges, chosen, scoring)
    given["SINKS"] = lse if sinks is None else sinks.float().contiguous()
    with torch.cuda.device_of(q):
        tensors = (_placed(x) for x in (q, k, v, out))
        _forward[grid](*tensors, lse, **given, **sizes, SUNK=sinks is not None)
    return out, lse


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ranges: Tensor,
    *,
    chosen: Chosen,
    saved: tuple[Tensor, Tensor],
    grad: Tensor,
    scoring: Scoring,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""dQ, dK and dV, like q (batch, heads, n, d), k and v, given the output and logsumexp.

    Equation: $P = e^{S - L}, \quad dV = P^T dO, \quad dS = P \circ (dO V^T - dO \cdot O), \quad
    dQ = \lambda\, dS K, \quad dK = \lambda\, dS^T Q$
    """
    q, k, v, grad = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v, grad))
    out, lse = saved
    delta = (grad.float() * out.float()).sum(-1)  # (batch, heads, n)
    dq = torch.empty_like(q, memory_format=torch.contiguous_format)
    dk, dv = (torch.zeros(x.shape, dtype=torch.float32, device=x.device) for x in (k, v))
    grid, given, sizes = _launch(q, k, ranges, chosen, scoring)
    with torch.cuda.device_of(q):
        tensors = (_placed(x) for x in (q, k, v, grad, dq, dk, dv))
        _backward[grid](*tensors, lse, delta, **given, **sizes)
    return dq, dk.to(k.dtype), dv.to(v.dtype)


def _launch(
    q: Tensor, k: Tensor, ranges: Tensor, chosen: Chosen, scoring: Scoring
) -> tuple[tuple[int, int], dict[str, Any], dict[str, Any]]:
    """The grid, the arguments that both kernels take, and their sizes."""
    batch, heads, n, d = q.shape
    shared, blocks = k.shape[1], chosen.blocks
    if blocks.shape[1] < shared:  # one choice for several key heads
        blocks = blocks.repeat_interleave(shared // blocks.shape[1], 1)
    blocks, ranges = blocks.contiguous(), ranges.contiguous()
    choosing, runs, most = blocks.shape[1:]
    rows = heads // choosing * chosen.query_block
    tile = min(64, max(16, triton.next_power_of_2(rows)))
    origins = chosen.origins
    if origins is None:
        origins = torch.zeros(batch, dtype=torch.int32, device=q.device)
    given = {
        "RANGES": ranges,
        "BLOCKS": blocks,
        "ORIGINS": origins.contiguous(),
        "ranges_step": 0 if ranges.shape[0] == 1 else 2 * n,
        "blocks_step": 0 if blocks.shape[0] == 1 else choosing * runs * most,
        "n": n,
        "n_k": k.shape[2],
        "heads": heads,
        "choosing": choosing,
        "choosers": choosing // shared,
        "runs": runs,
        "most": most,
        "scale": scoring.scale,
        "cap": scoring.cap,
    }
    tiles = triton.cdiv(rows, tile)
    sizes = {
        "TILES": tiles,
        "QUERY_BLOCK": chosen.query_block,
        "KEY_BLOCK": chosen.key_block,
        "CAPPED": scoring.cap > 0,
        "D": d,
        "D_PADDED": max(16, triton.next_power_of_2(d)),
        "ROWS": tile,
        "KEYS": 32 if q.dtype == torch.float32 else 64,
        "num_warps": 4,
    }
    return (runs * tiles, batch * choosing), given, sizes


@triton.jit
def _rows_of(
    n, heads, choosing, TILES: tl.constexpr, QUERY_BLOCK: tl.constexpr, ROWS: tl.constexpr
):
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
def _at(x, sample, head, token, D_PADDED: tl.constexpr):
    """Where numbers of the tokens of heads stand: (tokens, D_PADDED)."""
    start = x[0] + sample * x[1] + head * x[2] + token * x[3]
    return start[:, None] + tl.arange(0, D_PADDED)[None, :]


@triton.jit
def _keys_of(place, list_, most, origin, n_k, KEY_BLOCK: tl.constexpr, KEYS: tl.constexpr):
    """The keys at `place` and following of a list of blocks, and which of them there are."""
    flat = place + tl.arange(0, KEYS)
    listed = flat // KEY_BLOCK < most
    block = tl.load(list_ + flat // KEY_BLOCK, mask=listed, other=-1).to(tl.int64)
    j = origin + block * KEY_BLOCK + flat % KEY_BLOCK
    return j, (block >= 0) & (j < n_k)


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
    RANGES, BLOCKS, ORIGINS, SINKS, ranges_step, blocks_step, n, n_k, heads, choosing, choosers,
    runs, most, scale, cap,
    TILES: tl.constexpr, QUERY_BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, CAPPED: tl.constexpr,
    D: tl.constexpr, D_PADDED: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    SUNK: tl.constexpr,
):  # fmt: skip
    """Output and logsumexp of the rows of one query block."""
    sample, chooser, run, head, i, real = _rows_of(n, heads, choosing, TILES, QUERY_BLOCK, ROWS)
    inside = (tl.arange(0, D_PADDED) < D)[None, :]
    q = tl.load(_at(Q, sample, head, i, D_PADDED), mask=real[:, None] & inside, other=0.0)
    first = tl.load(RANGES + sample * ranges_step + i, mask=real, other=0)
    end = tl.load(RANGES + sample * ranges_step + n + i, mask=real, other=0)
    list_ = BLOCKS + sample * blocks_step + (chooser * runs + run) * most
    origin, shared = tl.load(ORIGINS + sample), chooser // choosers
    acc = tl.zeros((ROWS, D_PADDED), tl.float32)
    above = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for place in range(0, most * KEY_BLOCK, KEYS):
        j, there = _keys_of(place, list_, most, origin, n_k, KEY_BLOCK, KEYS)
        if tl.max(there.to(tl.int32), 0) > 0:
            held = there[:, None] & inside
            k = tl.load(_at(K, sample, shared, j, D_PADDED), mask=held, other=0.0)
            v = tl.load(_at(V, sample, shared, j, D_PADDED), mask=held, other=0.0)
            scores, _ = _scores(q, k, scale, cap, CAPPED)
            seen = there[None, :] & (j[None, :] >= first[:, None]) & (j[None, :] < end[:, None])
            scores = tl.where(seen, scores, -float("inf"))
            highest = tl.maximum(above, tl.max(scores, 1))
            shift = tl.where(highest == -float("inf"), 0.0, highest)
            p = tl.exp2((scores - shift[:, None]) * LOG2_E)
            kept = tl.exp2((above - shift) * LOG2_E)
            acc = acc * kept[:, None] + _product(p.to(v.dtype), v)
            total = total * kept + tl.sum(p, 1)
            above = highest
    if SUNK:
        sink = tl.load(SINKS + head, mask=real, other=0.0)
        highest = tl.maximum(above, sink)
        kept = tl.exp2((above - highest) * LOG2_E)
        acc = acc * kept[:, None]
        total = total * kept + tl.exp2((sink - highest) * LOG2_E)
        above = highest
    some = total > 0
    whole = tl.where(some, total, 1.0)
    out = acc / whole[:, None]
    stored = out.to(OUT[0].dtype.element_ty)
    tl.store(_at(OUT, sample, head, i, D_PADDED), stored, mask=real[:, None] & inside)
    lse = tl.where(some, above + tl.log2(whole) / LOG2_E, -float("inf"))
    tl.store(LSE + (sample * heads + head) * n + i, lse, mask=real)


@triton.jit
def _backward(
    Q, K, V, GRAD, DQ, DK, DV, LSE, DELTA,
    RANGES, BLOCKS, ORIGINS, ranges_step, blocks_step, n, n_k, heads, choosing, choosers,
    runs, most, scale, cap,
    TILES: tl.constexpr, QUERY_BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, CAPPED: tl.constexpr,
    D: tl.constexpr, D_PADDED: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """dQ of the rows of one query block, and what they add to dK and dV."""
    sample, chooser, run, head, i, real = _rows_of(n, heads, choosing, TILES, QUERY_BLOCK, ROWS)
    inside = (tl.arange(0, D_PADDED) < D)[None, :]
    rows = real[:, None] & inside
    q = tl.load(_at(Q, sample, head, i, D_PADDED), mask=rows, other=0.0)
    grad = tl.load(_at(GRAD, sample, head, i, D_PADDED), mask=rows, other=0.0)
    first = tl.load(RANGES + sample * ranges_step + i, mask=real, other=0)
    end = tl.load(RANGES + sample * ranges_step + n + i, mask=real, other=0)
    at = (sample * heads + head) * n + i
    lse = tl.load(LSE + at, mask=real, other=0.0)
    delta = tl.load(DELTA + at, mask=real, other=0.0)
    list_ = BLOCKS + sample * blocks_step + (chooser * runs + run) * most
    origin, shared = tl.load(ORIGINS + sample), chooser // choosers
    dq = tl.zeros((ROWS, D_PADDED), tl.float32)
    for place in range(0, most * KEY_BLOCK, KEYS):
        j, there = _keys_of(place, list_, most, origin, n_k, KEY_BLOCK, KEYS)
        if tl.max(there.to(tl.int32), 0) > 0:
            held = there[:, None] & inside
            k = tl.load(_at(K, sample, shared, j, D_PADDED), mask=held, other=0.0)
            v = tl.load(_at(V, sample, shared, j, D_PADDED), mask=held, other=0.0)
            scores, slope = _scores(q, k, scale, cap, CAPPED)
            seen = there[None, :] & (j[None, :] >= first[:, None]) & (j[None, :] < end[:, None])
            seen = seen & real[:, None]
            scores = tl.where(seen, scores - lse[:, None], -float("inf"))
            p = tl.exp2(scores * LOG2_E)
            ds = p * (_product(grad, tl.trans(v)) - delta[:, None]) * slope
            dq += _product(ds.to(k.dtype), k)
            dv = _product(tl.trans(p.to(grad.dtype)), grad)
            dk = _product(tl.trans(ds.to(q.dtype)), q) * scale
            tl.atomic_add(_at(DV, sample, shared, j, D_PADDED), dv, mask=held)
            tl.atomic_add(_at(DK, sample, shared, j, D_PADDED), dk, mask=held)
    stored = (dq * scale).to(DQ[0].dtype.element_ty)
    tl.store(_at(DQ, sample, head, i, D_PADDED), stored, mask=rows)

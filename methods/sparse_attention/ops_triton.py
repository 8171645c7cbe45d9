"""Grouped-head sparse attention on a GPU: Triton kernels in which every head has its own bounds.

One launch computes all heads. A head's pattern is three numbers: its keys stand at j = u s, and row
i sees those with j <= i and i // b - j // b < c. A window has s = 1; anchors have a stride s and no
bound behind them. A program takes a run of rows, visits the tiles of keys that any of them sees,
and masks only those that not all of them see. Keys and values are read in place, the output is
written in place.

The backward pass computes the softmax again from its logsumexp: one launch over rows for dQ, one
over keys for dK and dV. As in FlashAttention-2 (Dao, arXiv:2307.08691), with bounds by head.

Without a GPU the kernels run in Triton's interpreter: set TRITON_INTERPRET=1 before the import.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from .config import GlobalGroup, Group
from .tiles import added_own, pool_anchors

LOG2_E = tl.constexpr(math.log2(math.e))  # scores are computed as powers of 2


def attend(q: Tensor, k: Tensor, v: Tensor, groups: Sequence[Group]) -> Tensor:
    r"""Sparse attention by our Triton kernels, (batch, heads, n, d) -> the same.

    Equation: $o^h_i = \frac{\sum_{u \in U^h_i} e^{s^h_{iu}} v^h_{u s_h}}
    {\sum_{u \in U^h_i} e^{s^h_{iu}}}, \quad
    U^h_i = \{ u : u s_h \le i,\ \lfloor i / b_h \rfloor - \lfloor u s_h / b_h \rfloor < c_h \}$

    k and v are (batch, kv_heads, n, d); query heads share them in equal runs. A window has s = 1
    and c = ceil(w / b) blocks, anchors have their stride s, b = 1 and c = n.
    """
    pattern = patterns(tuple(groups), q.shape[2], str(q.device))
    last = groups[-1]
    if not isinstance(last, GlobalGroup):
        return _attend(q, k, v, pattern)[0]
    shared = last.start * k.shape[1] // q.shape[1]  # the first key head of the anchors
    pooled = last.anchor == "pool"
    keys, values = (_pooled(x, shared, last.stride) if pooled else x for x in (k, v))
    out, lse = _attend(q, keys, values, pattern)
    if not last.include_self:
        return out
    rest, heads = slice(shared, None), slice(last.start, None)
    parts = out[:, heads], lse[:, heads], q[:, heads], k[:, rest], v[:, rest]
    added, _ = added_own(*parts, group=last)
    return torch.cat((out[:, : last.start], added), 1)


def _attend(q: Tensor, k: Tensor, v: Tensor, pattern: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    with torch.cuda.device_of(q):  # Triton launches on the current device
        found: tuple[Tensor, Tensor] = _Attention.apply(q, k, v, pattern)
    return found


def _pooled(x: Tensor, shared: int, stride: int) -> Tensor:
    """Keys or values (batch, kv_heads, n, d) whose heads from `shared` on have means at anchors."""
    means = torch.zeros_like(x[:, shared:])
    means[:, :, ::stride] = pool_anchors(x[:, shared:], stride)
    return torch.cat((x[:, :shared], means), 1)


@lru_cache(maxsize=64)
def patterns(groups: tuple[Group, ...], n: int, device: str) -> Tensor:
    r"""What each head sees, (heads, 3) int32: stride s, block b, blocks c.

    Equation: $(s, b, c) = (1, b, \lceil w / b \rceil) \;\mathrm{of\ a\ window}, \quad
    (s, 1, n) \;\mathrm{of\ anchors}, \quad \mathrm{each\ at\ most}\ n$
    """
    rows = []
    for group in groups:
        if isinstance(group, GlobalGroup):
            row = (group.stride, 1, n)
        else:
            row = (1, group.block, -(-group.window // group.block))
        # Above n they all mean the same, and would overflow 32 bits.
        rows += [[min(number, n) for number in row]] * (group.stop - group.start)
    with torch.inference_mode(False):  # it is kept, and autograd refuses what that mode makes
        return torch.tensor(rows, dtype=torch.int32, device=device)


class _Attention(torch.autograd.Function):
    """Output (batch, heads, n, d) and logsumexp (batch, heads, n); both have gradients."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, pattern: Tensor
    ) -> tuple[Tensor, Tensor]:
        out, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
        sizes = _sizes(q, k)
        _forward[_grid(q, sizes["ROWS"])](*map(_placed, (q, k, v, out)), lse, pattern, **sizes)
        ctx.save_for_backward(q, k, v, out, lse, pattern)
        return out, lse * math.log(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_lse: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse, pattern = ctx.saved_tensors
        grad = grad if grad.stride(-1) == 1 else grad.contiguous()
        # dS = P o (dP - D + dL): the gradient of the logsumexp is one more constant of a row.
        delta = (grad.float() * out.float()).sum(-1) - grad_lse  # (batch, heads, n)
        # Keys that are no anchors get no gradient from a head of anchors.
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        given, rows = [_placed(x) for x in (q, k, v, grad)], (lse, delta, pattern)
        sizes = _sizes(q, k)
        _backward_rows[_grid(q, sizes["ROWS"])](*given, _placed(dq), *rows, **sizes)
        sizes = _sizes(q, k, by_key=True)
        grid = _grid(k, sizes["KEYS"])
        _backward_keys[grid](*given, _placed(dk), _placed(dv), *rows, **sizes)
        return dq, dk, dv, None


def _grid(x: Tensor, run: int) -> tuple[int, int]:
    """A program for each run of tokens of each head of (batch, heads, n, d)."""
    return triton.cdiv(x.shape[2], run), x.shape[0] * x.shape[1]


def _placed(x: Tensor) -> tuple[Any, ...]:
    """A tensor (batch, heads, n, d) and its strides but the last, which is 1."""
    return x, *x.stride()[:3]


def _sizes(q: Tensor, k: Tensor, *, by_key: bool = False) -> dict[str, Any]:
    """What a kernel knows of the shapes, and how it is cut."""
    _, heads, n, d = q.shape
    sizes = {"n": n, "heads": heads, "sharing": heads // k.shape[1], "scale": 1 / math.sqrt(d)}
    padded = max(16, triton.next_power_of_2(d))
    return {**sizes, "D": d, "D_PADDED": padded, **tile(q.dtype, by_key=by_key)}


def tile(dtype: torch.dtype, *, by_key: bool) -> dict[str, int]:
    """Rows and keys of a tile, warps and stages: such that at d = 64 no register is spilled."""
    if dtype == torch.float32:
        return {"ROWS": 32, "KEYS": 32, "num_warps": 8, "num_stages": 2}
    rows, warps = (32, 8) if by_key else (64, 4)
    return {"ROWS": rows, "KEYS": 64, "num_warps": warps, "num_stages": 2}


@triton.jit
def _place(heads):
    """Sample and head of this program, in 64 bits: what they are multiplied by may need them."""
    return (tl.program_id(1) // heads).to(tl.int64), (tl.program_id(1) % heads).to(tl.int64)


@triton.jit
def _head(x, sample, head):
    """Where the tokens (n, d) of a head begin."""
    return x[0] + sample * x[1] + head * x[2]


@triton.jit
def _read(x, start, token, n, D: tl.constexpr, D_PADDED: tl.constexpr):
    """Those tokens of (n, D): (tokens, D_PADDED), zeros beyond n and D."""
    d = tl.arange(0, D_PADDED)
    inside = (token < n)[:, None] & (d < D)[None, :]
    return tl.load(start + token.to(tl.int64)[:, None] * x[3] + d[None, :], mask=inside, other=0.0)


@triton.jit
def _write(x, start, token, n, value, D: tl.constexpr, D_PADDED: tl.constexpr):
    d = tl.arange(0, D_PADDED)
    inside = (token < n)[:, None] & (d < D)[None, :]
    place = start + token.to(tl.int64)[:, None] * x[3] + d[None, :]
    tl.store(place, value.to(start.dtype.element_ty), mask=inside)


@triton.jit
def _product(a, b):
    """A product of matrices; of float32 in float32, not in TF32."""
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def _pattern(PATTERN, head):
    """Stride s, block b and blocks c of a head."""
    row = PATTERN + 3 * head
    return tl.load(row), tl.load(row + 1), tl.load(row + 2)


@triton.jit
def _seen(i, j, block, blocks):
    return (j <= i) & (i // block - j // block < blocks)


@triton.jit
def _first_key(i, s, block, blocks):
    """The first u that row i sees."""
    return (tl.maximum((i // block - blocks + 1) * block, 0) + s - 1) // s


@triton.jit
def _tiles_of_keys(first, last, s, block, blocks, KEYS: tl.constexpr):
    """Where tiles of the keys u of rows `first` to `last` begin and end, and between them where
    those begin and end that all of these rows see."""
    low = _first_key(first, s, block, blocks)
    whole = low + tl.cdiv(_first_key(last, s, block, blocks) - low, KEYS) * KEYS
    ragged = whole + tl.maximum(first // s + 1 - whole, 0) // KEYS * KEYS
    return low, whole, ragged, last // s + 1


@triton.jit
def _forward(
    Q, K, V, OUT, LSE, PATTERN,
    n, heads, sharing, scale,
    D: tl.constexpr, D_PADDED: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Output and logsumexp of a run of rows of one head."""
    first = tl.program_id(0) * ROWS
    sample, head = _place(heads)
    s, block, blocks = _pattern(PATTERN, head)
    i = first + tl.arange(0, ROWS)
    keys, values = _head(K, sample, head // sharing), _head(V, sample, head // sharing)
    q = _read(Q, _head(Q, sample, head), i, n, D, D_PADDED)
    acc = tl.zeros((ROWS, D_PADDED), tl.float32)  # sums of values, by the weights so far
    above = tl.full((ROWS,), -float("inf"), tl.float32)  # the largest score so far
    total = tl.zeros((ROWS,), tl.float32)  # of the weights
    bounds = _tiles_of_keys(first, tl.minimum(first + ROWS, n) - 1, s, block, blocks, KEYS)
    for part in tl.static_range(3):
        for start in range(bounds[part], bounds[part + 1], KEYS):
            j = (start + tl.arange(0, KEYS)) * s
            k = _read(K, keys, j, n, D, D_PADDED)
            scores = _product(q, tl.trans(k)) * (scale * LOG2_E)  # (rows, keys)
            if part != 1:
                seen = _seen(i[:, None], j[None, :], block, blocks)
                scores = tl.where(seen, scores, -float("inf"))
            highest = tl.maximum(above, tl.max(scores, 1))
            shift = tl.where(highest == -float("inf"), 0.0, highest)  # a row may have seen no key
            p, kept = tl.exp2(scores - shift[:, None]), tl.exp2(above - shift)
            v = _read(V, values, j, n, D, D_PADDED)
            acc = acc * kept[:, None] + _product(p.to(v.dtype), v)
            total = total * kept + tl.sum(p, 1)
            above = highest
    _write(OUT, _head(OUT, sample, head), i, n, acc / total[:, None], D, D_PADDED)
    row = (sample * heads + head) * n + i
    tl.store(LSE + row, above + tl.log2(total), mask=i < n)


@triton.jit
def _backward_rows(
    Q, K, V, GRAD, DQ, LSE, DELTA, PATTERN,
    n, heads, sharing, scale,
    D: tl.constexpr, D_PADDED: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """dQ of a run of rows of one head."""
    first = tl.program_id(0) * ROWS
    sample, head = _place(heads)
    s, block, blocks = _pattern(PATTERN, head)
    i = first + tl.arange(0, ROWS)
    keys, values = _head(K, sample, head // sharing), _head(V, sample, head // sharing)
    q = _read(Q, _head(Q, sample, head), i, n, D, D_PADDED)
    grad = _read(GRAD, _head(GRAD, sample, head), i, n, D, D_PADDED)
    row = (sample * heads + head) * n + i
    lse = tl.load(LSE + row, mask=i < n, other=0.0)
    delta = tl.load(DELTA + row, mask=i < n, other=0.0)
    dq = tl.zeros((ROWS, D_PADDED), tl.float32)
    bounds = _tiles_of_keys(first, tl.minimum(first + ROWS, n) - 1, s, block, blocks, KEYS)
    for part in tl.static_range(3):
        for start in range(bounds[part], bounds[part + 1], KEYS):
            j = (start + tl.arange(0, KEYS)) * s
            k, v = _read(K, keys, j, n, D, D_PADDED), _read(V, values, j, n, D, D_PADDED)
            scores = _product(q, tl.trans(k)) * (scale * LOG2_E)  # (rows, keys)
            p = tl.exp2(scores - lse[:, None])
            if part != 1:
                p = tl.where(_seen(i[:, None], j[None, :], block, blocks), p, 0.0)
            ds = p * (_product(grad, tl.trans(v)) - delta[:, None])
            dq += _product(ds.to(k.dtype), k)
    _write(DQ, _head(DQ, sample, head), i, n, dq * scale, D, D_PADDED)


@triton.jit
def _backward_keys(
    Q, K, V, GRAD, DK, DV, LSE, DELTA, PATTERN,
    n, heads, sharing, scale,
    D: tl.constexpr, D_PADDED: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """dK and dV of a run of keys of one key head, over all query heads that share it."""
    kv_heads = heads // sharing
    sample, shared = _place(kv_heads)
    s, block, blocks = _pattern(PATTERN, shared * sharing)
    start = tl.program_id(0) * KEYS
    j = (start + tl.arange(0, KEYS)) * s
    first, last = start * s, tl.minimum(start + KEYS - 1, (n - 1) // s) * s
    if first >= n:
        return
    k = _read(K, _head(K, sample, shared), j, n, D, D_PADDED)
    v = _read(V, _head(V, sample, shared), j, n, D, D_PADDED)
    dk, dv = tl.zeros((KEYS, D_PADDED), tl.float32), tl.zeros((KEYS, D_PADDED), tl.float32)
    # Rows that see any of these keys, and between them those that see all.
    whole = first + tl.cdiv(last - first, ROWS) * ROWS
    seeing_first = tl.minimum((first // block + blocks) * block, n)
    ragged = whole + tl.maximum(seeing_first - whole, 0) // ROWS * ROWS
    bounds = first, whole, ragged, tl.minimum((last // block + blocks) * block, n)
    for other in range(sharing):
        head = shared * sharing + other
        queries, grads = _head(Q, sample, head), _head(GRAD, sample, head)
        rows = (sample * heads + head) * n
        for part in tl.static_range(3):
            for begin in range(bounds[part], bounds[part + 1], ROWS):
                i = begin + tl.arange(0, ROWS)
                q = _read(Q, queries, i, n, D, D_PADDED)
                grad = _read(GRAD, grads, i, n, D, D_PADDED)
                lse = tl.load(LSE + rows + i, mask=i < n, other=0.0)
                delta = tl.load(DELTA + rows + i, mask=i < n, other=0.0)
                scores = _product(k, tl.trans(q)) * (scale * LOG2_E)  # (keys, rows)
                p = tl.exp2(scores - lse[None, :])
                if part != 1:
                    p = tl.where(_seen(i[None, :], j[:, None], block, blocks), p, 0.0)
                dv += _product(p.to(grad.dtype), grad)
                ds = p * (_product(v, tl.trans(grad)) - delta[None, :])
                dk += _product(ds.to(q.dtype), q)
    _write(DK, _head(DK, sample, shared), j, n, dk * scale, D, D_PADDED)
    _write(DV, _head(DV, sample, shared), j, n, dv, D, D_PADDED)

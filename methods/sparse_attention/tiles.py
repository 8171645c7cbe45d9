"""How a sparse pattern is cut into dense tiles that any attention kernel can run.

A tile is a run of consecutive queries together with the consecutive keys that they see, and an
additive bias (0 or -inf) for the ragged edges. Both head groups come out the same way:

- a window over keys: block [a, a + B) of queries sees keys [a - w + 1, a + B), clipped at 0;
- anchors, gathered so that anchor t is key t: queries [a, a + R) see anchors [0, (a + R - 1) / s].

The bias of a tile depends only on where its keys end, not on its place in the sequence, so one
small tensor serves a whole group and every tile takes a view of it. Unclipped windows differ only
in their place; `count` of them form one tile as overlapping strided views.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Self

import torch
from torch import Tensor

from .config import GlobalGroup, Group, LocalGroup

ALIGN = 16  # floats to a vector register


@dataclass(frozen=True)
class Tile:
    """`count` runs of `rows` queries; run c starts at `row + c * rows`, its keys at `col + ...`."""

    row: int
    rows: int
    count: int
    col: int
    cols: int
    bias: Tensor  # (rows, cols): 0 where the query may attend the key, -inf where it may not

    def per_call(self, batch: int) -> Iterator[tuple[slice, Self]]:
        """Kernels take one leading dimension: all samples of one run, or all runs of one sample."""
        if batch <= self.count:
            for b in range(batch):
                yield slice(b, b + 1), self
        else:
            for c in range(self.count):
                shift = c * self.rows
                run = replace(self, row=self.row + shift, col=self.col + shift, count=1)
                yield slice(None), run

    def queries(self, x: Tensor) -> Tensor:
        r"""Its rows of (batch, heads, n, ...) as (batch * count, heads, rows, ...), a view.

        Equation: $y_{b C + c, h, i} = x_{b, h, \mathrm{row} + c R + i}, \quad i < R$

        C is `count`, R is `rows`.
        """
        runs = x[:, :, self.row : self.row + self.count * self.rows]
        if self.count == 1:
            return runs
        runs = torch.unflatten(runs, 2, (self.count, self.rows))
        return runs.transpose(1, 2).flatten(0, 1)

    def keys(self, x: Tensor) -> Tensor:
        r"""The tile's keys in (batch, heads, n_k, d) as (batch * count, heads, cols, d), a view.

        Equation: $y_{b C + c, h, j} = x_{b, h, \mathrm{col} + c R + j}, \quad j < \mathrm{cols}$

        Neighbouring windows overlap: they are strides over the same memory.
        """
        span = x[:, :, self.col : self.col + (self.count - 1) * self.rows + self.cols]
        if self.count == 1:
            return span
        windows = span.unfold(2, self.cols, self.rows)
        return windows.permute(0, 2, 1, 4, 3).flatten(0, 1)

    def add_keys(self, total: Tensor, part: Tensor) -> None:
        r"""Add per-window gradients (batch * count, heads, cols, d) into (batch, heads, n_k, d).

        Equation: $t_{b, h, \mathrm{col} + m} \gets t_{b, h, \mathrm{col} + m} +
        \sum_{c R + j = m} p_{b C + c, h, j}$

        Windows overlap, but slices of `rows` columns of all windows do not: one addition each.
        Batch or count is 1, as `per_call` makes it: else the keys of `total` would be a copy.
        """
        windows = self.keys(total)
        step = self.rows if self.count > 1 else self.cols
        for c in range(0, self.cols, step):
            windows[:, :, c : c + step] += part[:, :, c : c + step]


class Cut(NamedTuple):
    """How to cut: rows of queries to a tile, to a clipped tile, to a tile of anchors; to a call."""

    rows: int
    first_rows: int
    anchor_rows: int
    span: int


def local_tiles(group: LocalGroup, n: int, cut: Cut, dtype: torch.dtype) -> Iterator[Tile]:
    """Cut a sliding window over n tokens.

    Clipped windows at the sequence's start differ in length, so each is a tile of its own; these
    have `first_rows` queries, since few calls matter more there than the waste on their corners.
    """
    rows, first_rows = (-(-r // group.block) * group.block for r in (cut.rows, cut.first_rows))
    most = max(cut.span // rows, 1)
    reach = -group.first_key(0)  # keys before a block's first query; w - 1 without blocks
    reach += -(reach + rows) % ALIGN  # some more, masked, so that the kernels run without a tail
    bias = _band(group, min(max(rows, first_rows), n), reach, dtype)
    start = 0
    while start < n:
        clipped = max(reach - start, 0)
        height = min(first_rows if clipped else rows, n - start)
        count = min((n - start) // rows, most) if not clipped and height == rows else 1
        cols = reach - clipped + height
        edge = bias[:height, clipped : clipped + cols]
        yield Tile(start, height, count, start - reach + clipped, cols, edge)
        start += count * height


def anchor_tiles(group: GlobalGroup, n: int, cut: Cut, dtype: torch.dtype) -> Iterator[Tile]:
    """Cut attention to anchors 0, s, 2s, ... over n tokens; key t is anchor t.

    Anchors in the future of a whole tile are left out of it, as a causal kernel leaves out blocks.
    """
    s = group.stride
    rows = max(cut.anchor_rows // s, 1) * s
    m = group.anchors(n)
    bias = _stairs(s, rows, m, dtype)
    for start in range(0, n, rows):
        height = min(rows, n - start)
        first_unseen = start // s + rows // s  # anchors that a full tile here would see
        cols = group.anchors(start + height)
        edge = bias[:height, bias.shape[1] - first_unseen :][:, :cols]
        yield Tile(start, height, 1, 0, cols, edge)


@lru_cache(maxsize=32)
def plan(group: Group, n: int, cut: Cut, dtype: torch.dtype) -> tuple[Tile, ...]:
    """The tiles of one head group over n tokens, remembered for the next step or layer."""
    with torch.device("cpu"):  # cached, so independent of the default device
        if isinstance(group, LocalGroup):
            return tuple(local_tiles(group, n, cut, dtype))
        return tuple(anchor_tiles(group, n, cut, dtype))


def _band(group: LocalGroup, rows: int, reach: int, dtype: torch.dtype) -> Tensor:
    """(rows, reach + rows) bias of an unclipped block whose first query is column `reach`."""
    i = torch.arange(rows)[:, None]
    j = torch.arange(-reach, rows)[None, :]
    first = torch.tensor([group.first_key(row) for row in range(rows)])[:, None]
    hidden = (j > i) | (j < first)
    return torch.zeros(rows, reach + rows, dtype=dtype).masked_fill(hidden, -torch.inf)


def _stairs(stride: int, rows: int, anchors: int, dtype: torch.dtype) -> Tensor:
    """(rows, m + rows / s) bias: the last rows / s anchors appear one every s rows."""
    i, t = torch.arange(rows)[:, None], torch.arange(-anchors, rows // stride)[None, :]
    return torch.zeros(rows, t.shape[1], dtype=dtype).masked_fill(t * stride > i, -torch.inf)


def own_scores(q: Tensor, k: Tensor, group: GlobalGroup) -> Tensor:
    r"""Of each token with itself, (batch, heads, n); -inf where it is its own anchor already.

    Equation: $s_{ii} = \frac{q_i \cdot k_i}{\sqrt{d}}$
    """
    scores = (q * k).sum(-1) / math.sqrt(q.shape[-1])
    if group.anchor == "pool":
        return scores
    anchors = torch.arange(q.shape[2], device=q.device) % group.stride == 0
    return scores.masked_fill(anchors, -torch.inf)


def added_own(
    out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, *, group: GlobalGroup
) -> tuple[Tensor, Tensor]:
    r"""What heads of anchors found, and each token's own key beside it; the logsumexp of both.

    out and q are (batch, heads, n, d), lse (batch, heads, n) in single precision at least, in which
    the sum is made; k and v are (batch, kv_heads, n, d). Returns the shapes of out and lse.

    Equation: $L' = \log(e^L + e^{s_{ii}}), \quad O' = e^{L - L'} O + e^{s_{ii} - L'} v_i$
    """
    sharing = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(sharing, 1).to(lse.dtype) for x in (k, v))
    own = own_scores(q.to(lse.dtype), k, group)
    total = torch.logaddexp(lse, own)
    kept, added = torch.exp(lse - total)[..., None], torch.exp(own - total)[..., None]
    return (out.to(lse.dtype) * kept + v * added).to(q.dtype), total


def key_side(x: Tensor, group: Group) -> Tensor:
    r"""What a group's tiles index: all keys for windows, one row an anchor for global heads.

    (batch, heads, n, d) -> (batch, heads, n or ceil(n / s), d).

    Equation: $y_j = x_j \;\mathrm{for\ windows}, \quad y_t = x_{t s} \;\mathrm{or}\; \bar x_t
    \;\mathrm{for\ anchors}$
    """
    if isinstance(group, LocalGroup):
        return x
    if group.anchor == "pool":
        return pool_anchors(x, group.stride)
    return x[:, :, :: group.stride]


def pool_anchors(x: Tensor, stride: int) -> Tensor:
    r"""Mean of the s tokens that end at each anchor; anchor 0 is token 0 alone (nothing precedes).

    (..., n, d) -> (..., ceil(n / s), d). Anchor t covers tokens (t - 1) s + 1 .. t s, so whoever
    may see token t s may see all that went into the mean.

    Equation: $\bar x_t = \frac{1}{s} \sum_{j = (t - 1) s + 1}^{t s} x_j$
    """
    first, n = x[..., :1, :], x.shape[-2]
    m = (n - 1) // stride
    rest = torch.unflatten(x[..., 1 : 1 + m * stride, :], -2, (m, stride)).mean(-2)
    return torch.cat([first, rest], dim=-2)

"""Attention to chosen blocks by public calls alone: the chosen keys are gathered, block by block.

Runs on any device and in any of the types, with softmax and sums in float32 (float64 for float64).
A few query blocks are computed at a time, so that what is gathered stays small. The backward pass
takes the softmax anew from the scores, so that it holds at scores of any size.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .kernel import Chosen, Scoring

GATHERED = 1 << 22  # numbers of keys gathered at a time


@dataclass
class _Part:
    """Query blocks `at` with the keys that they read, gathered.

    g are the heads that choose (at least the key heads), s the heads that share a choice, q the
    rows of a query block and k its gathered keys.
    """

    at: slice
    tokens: Tensor  # (batch, g, blocks, k) which keys
    seen: Tensor  # (batch, g, 1, blocks, q, k) bool
    q: Tensor  # (batch, g, s, blocks, q, d)
    keys: Tensor  # (batch, g, 1, blocks, k, d)
    values: Tensor


class _Call:
    """One call, its heads and rows unfolded."""

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, ranges: Tensor, *, of: tuple[Chosen, Scoring]
    ) -> None:
        chosen, scoring = of
        blocks, self.block, self.size = chosen.blocks, chosen.query_block, chosen.key_block
        self.batch, self.heads, self.n, self.d = q.shape
        self.shared, self.n_k = k.shape[1], k.shape[2]
        if blocks.shape[1] < self.shared:  # one choice for several key heads
            blocks = blocks.repeat_interleave(self.shared // blocks.shape[1], 1)
        self.choosers = blocks.shape[1]
        self.blocks = blocks.expand(self.batch, -1, -1, -1).long()
        self.q, self.k, self.v, self.scoring = q, k, v, scoring
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        origins = torch.zeros(self.batch) if chosen.origins is None else chosen.origins
        self.origins = origins.to(q.device, torch.long)[:, None, None, None, None]
        self.ranges = self.rows(ranges.expand(self.batch, -1, -1)[..., None])

    def rows(self, x: Tensor) -> Tensor:
        """(batch, m, n, c) -> (batch, m, query blocks, rows of one, c), zeros beyond n."""
        x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[2] % self.block))
        return torch.unflatten(x, 2, (-1, self.block))

    def queries(self, x: Tensor) -> Tensor:
        """(batch, heads, n, c) -> (batch, g, s, query blocks, rows of one, c)."""
        return torch.unflatten(self.rows(x.to(self.dtype)), 1, (self.choosers, -1))

    def unfolded(self, x: Tensor) -> Tensor:
        """The way back from `queries`."""
        return x.flatten(1, 2).flatten(2, 3)[:, :, : self.n]

    def gathered(self, x: Tensor, tokens: Tensor) -> Tensor:
        """Rows `tokens` (batch, g, blocks, k) of (batch, kv_heads, n_k, d)."""
        x = x.repeat_interleave(self.choosers // self.shared, 1)
        index = tokens.flatten(2)[..., None].expand(-1, -1, -1, x.shape[-1])
        rows = x.gather(2, index).to(self.dtype)
        return torch.unflatten(rows, 2, tokens.shape[2:])[:, :, None]

    def add(self, total: Tensor, part: Tensor, tokens: Tensor) -> None:
        """Add gradients like `gathered` to (batch, kv_heads, n_k, d)."""
        index = torch.unflatten(tokens, 1, (self.shared, -1)).flatten(2)[..., None]
        part = torch.unflatten(part.squeeze(2), 1, (self.shared, -1)).flatten(2, 4)
        total.scatter_add_(2, index.expand_as(part), part)

    def parts(self) -> Iterator[_Part]:
        """All query blocks, a few at a time."""
        q, within = self.queries(self.q), torch.arange(self.size, device=self.q.device)
        most = self.blocks.shape[-1] * self.size
        each = max(1, GATHERED // max(1, self.batch * self.choosers * most * self.d))
        for start in range(0, self.blocks.shape[2], each):
            at = slice(start, start + each)
            picked = self.blocks[:, :, at, :, None]
            tokens = (self.origins + picked * self.size + within).flatten(3)
            real = (picked >= 0).expand(*picked.shape[:-1], self.size).flatten(3)
            real = real & (tokens >= 0) & (tokens < self.n_k)
            first, end = self.ranges[:, :1, at], self.ranges[:, 1:, at]
            seen = real[:, :, :, None] & (tokens[:, :, :, None] >= first)
            seen = (seen & (tokens[:, :, :, None] < end))[:, :, None]
            tokens = tokens.clamp(0, self.n_k - 1)
            keys, values = self.gathered(self.k, tokens), self.gathered(self.v, tokens)
            yield _Part(at, tokens, seen, q[:, :, :, at], keys, values)

    def weights(self, part: _Part, sinks: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Weights (batch, g, s, blocks, q, k), logsumexp (..., q), and the slope of the cap."""
        scores = part.q @ part.keys.transpose(-1, -2) * self.scoring.scale
        slope = scores.new_ones(())
        if cap := self.scoring.cap:
            bent = torch.tanh(scores / cap)
            scores, slope = cap * bent, 1 - bent**2
        scores = scores.masked_fill(~part.seen, -math.inf)
        highest = scores.amax(-1, keepdim=True)
        sink = None
        if sinks is not None:
            sink = sinks.to(self.dtype).view(self.choosers, -1, 1, 1, 1)
            highest = torch.maximum(highest, sink)
        highest = highest.masked_fill(highest == -math.inf, 0.0)
        weights = torch.exp(scores - highest)
        total = weights.sum(-1, keepdim=True)
        if sink is not None:
            total = total + torch.exp(sink - highest)
        lse = (highest + total.log())[..., 0]
        return weights / total.masked_fill(total == 0, 1.0), lse, slope


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
    r"""Output (batch, heads, n, d) in q's type and logsumexp (batch, heads, n), as the kernel's.

    Equation: $o_i = \frac{\sum_{j \in C_i} e^{s_{ij}} v_j}{e^z + \sum_{j \in C_i} e^{s_{ij}}}$
    """
    call = _Call(q, k, v, ranges, of=(chosen, scoring))
    outs, lses = [], []
    for part in call.parts():
        weights, lse, _ = call.weights(part, sinks)
        outs.append(weights @ part.values)
        lses.append(lse[..., None])
    out, lse = (call.unfolded(torch.cat(found, 3)) for found in (outs, lses))
    return out.to(q.dtype), lse[..., 0]


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ranges: Tensor,
    *,
    chosen: Chosen,
    sinks: Tensor | None,
    scoring: Scoring,
    grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""dQ, dK and dV, like q (batch, heads, n, d), k and v.

    Equation: $P = e^{S - L}, \quad dV = P^T dO, \quad dS = P \circ (dO V^T - dO \cdot O), \quad
    dQ = \lambda\, dS K, \quad dK = \lambda\, dS^T Q$
    """
    call = _Call(q, k, v, ranges, of=(chosen, scoring))
    dk, dv = (torch.zeros_like(x, dtype=call.dtype) for x in (k, v))
    dqs, grads = [], call.queries(grad)
    for part in call.parts():
        weights, _, slope = call.weights(part, sinks)
        dout = grads[:, :, :, part.at]
        dp = dout @ part.values.transpose(-1, -2)
        ds = weights * (dp - (weights * dp).sum(-1, keepdim=True)) * slope
        dqs.append(ds @ part.keys * scoring.scale)
        # Heads that share a choice add up.
        one_v = (weights.transpose(-1, -2) @ dout).sum(2, keepdim=True)
        one_k = (ds.transpose(-1, -2) @ part.q).sum(2, keepdim=True) * scoring.scale
        call.add(dv, one_v, part.tokens)
        call.add(dk, one_k, part.tokens)
    dq = call.unfolded(torch.cat(dqs, 3))
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)

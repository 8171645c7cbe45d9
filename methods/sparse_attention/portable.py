"""The operator by PyTorch's own calls: on any device, in any of the types, where nothing is built.

A run of queries attends to the keys that any of them sees, sliced for a range and gathered for
chosen blocks, under a mask. Runs are small, so no n x n scores are ever held. Softmax and sums are
float32 (float64 for float64). The backward pass takes the softmax anew from the scores, so that it
holds at scores of any size. Plain runs on the CPU go through PyTorch's flash kernel, an operator
that is private: where it is missing, they are computed like the others.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..kit.layout import fitted, like
from .pattern import Pattern, Scoring

ROWS = 96  # queries of a run that read ranges: fewer waste less on a window's edges
FLASH = "_scaled_dot_product_flash_attention_for_cpu"
ALIGN = 16  # floats to a vector register
GATHERED = 1 << 22  # numbers of keys gathered at a time


class _Run(NamedTuple):
    """Queries and the keys that they read: m blocks of r queries and c keys each.

    g are the heads that choose, or the key heads; s are the heads that share a choice.
    """

    heads: slice
    rows: slice
    q: Tensor  # (batch, g, s, m, r, d)
    keys: Tensor  # (batch, g, 1, m, c, d)
    values: Tensor
    seen: Tensor  # (batch or 1, g or 1, 1, m, r, c) bool
    shared: slice
    at: Tensor | slice  # (batch, g, m, c) or a slice: where the keys stand

    def of(self, x: Tensor) -> Tensor:
        """Return the part's rows of x (batch, heads, n_q, d), shaped like q; zeros beyond n_q."""
        x = x[:, self.heads, self.rows].to(self.q.dtype)
        m, r = self.q.shape[3:5]
        x = torch.nn.functional.pad(x, (0, 0, 0, m * r - x.shape[2]))
        return torch.unflatten(torch.unflatten(x, 2, (m, r)), 1, self.q.shape[1:3])

    def flat(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values (batch, heads, r or c, d) and the bias of what is not seen."""
        bias = self.q.new_zeros(self.seen.shape).masked_fill(~self.seen, -math.inf)
        shape = self.q.shape[:3]
        keys, values = (x.expand(*shape, *x.shape[3:]).flatten(1, 3) for x in self[3:5])
        q, keys, values = map(_by_channel, (self.q.flatten(1, 3), keys, values))
        return q, keys, values, bias[:, 0, 0]

    def write(self, x: Tensor, part: Tensor) -> None:
        """The way back: put a part shaped like q into (batch, heads, n_q, d)."""
        into = x[:, self.heads, self.rows]
        into.copy_(part.flatten(1, 2).flatten(2, 3)[:, :, : into.shape[2]])

    def add(self, total: Tensor, part: Tensor) -> None:
        """Add gradients shaped like the keys to (batch, kv_heads, n_k, d)."""
        into = total[:, self.shared]
        if isinstance(self.at, slice):
            into[:, :, self.at] += part[:, :, 0, 0]
            return
        into_heads = (into.shape[1], -1)  # several may choose from one key head
        index = torch.unflatten(self.at, 1, into_heads).flatten(2)[..., None]
        part = torch.unflatten(part.squeeze(2), 1, into_heads).flatten(2, 4)
        into.scatter_add_(2, index.expand_as(part), part)


def _by_channel(x: Tensor) -> Tensor:
    """Return x with its channels side by side: the flash kernel reads them so, unasked."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _runs(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern) -> Iterator[_Run]:
    dtype = torch.promote_types(q.dtype, torch.float32)
    if pattern.blocks is not None:
        yield from _listed(q, k, v, pattern, dtype)
        return
    for g, (heads, shared, stride) in enumerate(pattern.parts(k.shape[1])):
        first, end = pattern.ranges[:, g].unbind(1)  # (batch or 1, n_q)
        for start in range(0, q.shape[2], ROWS):
            rows = slice(start, min(start + ROWS, q.shape[2]))
            low, high = int(first[:, rows].amin()), int(end[:, rows].amax())
            low = min(low, -(-k.shape[2] // stride) - 1)  # a row may see nothing: one key, masked
            high = max(high, low + 1)
            low = max(0, low - (low - high) % ALIGN)  # some more, masked: kernels without a tail
            keys_at = slice(low * stride, (high - 1) * stride + 1, stride)
            j = torch.arange(low, high, device=q.device)
            seen = (j >= first[:, rows, None]) & (j < end[:, rows, None])  # (batch or 1, r, c)
            keys, values = (x[:, shared, keys_at].to(dtype)[:, :, None, None] for x in (k, v))
            queries = torch.unflatten(q[:, heads, rows].to(dtype), 1, (keys.shape[1], -1))
            mask = seen[:, None, None, None]
            yield _Run(heads, rows, queries[:, :, :, None], keys, values, mask, shared, keys_at)


def _listed(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, dtype: torch.dtype
) -> Iterator[_Run]:
    """Runs of query blocks whose chosen keys are gathered."""
    (batch, _, n_q, d), (shared, n_k) = q.shape, k.shape[1:3]
    assert pattern.blocks is not None
    blocks, size, each = pattern.blocks.long(), pattern.key_block, pattern.query_block
    if blocks.shape[1] < shared:  # one choice for several key heads
        blocks = blocks.repeat_interleave(shared // blocks.shape[1], 1)
    blocks = blocks.expand(batch, -1, -1, -1)
    choosing, count, most = blocks.shape[1:]
    k, v = (x.repeat_interleave(choosing // shared, 1) for x in (k, v))
    origins = q.new_zeros(batch) if pattern.origins is None else pattern.origins
    origins = origins.to(q.device, torch.long)[:, None, None, None, None]
    ranges = torch.nn.functional.pad(pattern.ranges[:, 0], (0, -n_q % each))  # (batch or 1, 2, n)
    first, end = torch.unflatten(ranges, 2, (-1, each))[:, :, None, :, :, None].unbind(1)
    together = max(1, GATHERED // max(1, batch * choosing * most * size * d))
    for start in range(0, count, together):
        part = slice(start, start + together)
        rows = slice(start * each, min((start + together) * each, n_q))
        picked = blocks[:, :, part, :, None]  # (batch, g, m, most, 1)
        places = (origins + picked * size + torch.arange(size, device=q.device)).flatten(3)
        real = (picked >= 0).expand(*picked.shape[:-1], size).flatten(3)
        real = real & (places >= 0) & (places < n_k)  # (batch, g, m, c)
        place = places[:, :, :, None]
        seen = (place >= first[:, :, part]) & (place < end[:, :, part])
        seen = (seen & real[:, :, :, None])[:, :, None]
        places = places.clamp(0, n_k - 1)
        index = places.flatten(2)[..., None].expand(-1, -1, -1, d)
        keys, values = (
            torch.unflatten(x.gather(2, index).to(dtype), 2, places.shape[2:])[:, :, None]
            for x in (k, v)
        )
        empty = q.new_empty(batch, choosing, q.shape[1] // choosing, places.shape[2], each, 0)
        run = _Run(slice(None), rows, empty.to(dtype), keys, values, seen, slice(None), places)
        yield run._replace(q=run.of(q))


def _weights(run: _Run, scoring: Scoring) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (batch, g, s, m, r, c), logsumexp (batch, g, s, m, r, 1), and the cap's slope."""
    scores = run.q @ run.keys.transpose(-1, -2) * scoring.scale
    slope = scores.new_ones(())
    if cap := scoring.cap:
        bent = torch.tanh(scores / cap)
        scores, slope = cap * bent, 1 - bent**2
    scores = scores.masked_fill(~run.seen, -math.inf)
    highest, sink = scores.amax(-1, keepdim=True), None
    if scoring.sinks is not None:
        sink = scoring.sinks[run.heads].to(scores.dtype)
        sink = sink.view(run.q.shape[1], -1, 1, 1, 1)
        highest = torch.maximum(highest, sink)
    highest = highest.masked_fill(highest == -math.inf, 0.0)
    weights = torch.exp(scores - highest)
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink - highest)
    return weights / total.masked_fill(total == 0, 1.0), highest + total.log(), slope


def _flash(q: Tensor, pattern: Pattern, scoring: Scoring) -> tuple[Any, Any] | None:
    """PyTorch's flash kernel and its backward pass, where it can take these runs."""
    plain = pattern.blocks is None and not scoring.cap and scoring.sinks is None
    if not plain or q.device.type != "cpu" or not hasattr(torch.ops.aten, FLASH):
        return None
    return tuple(getattr(torch.ops.aten, FLASH + way).default for way in ("", "_backward"))


def forward(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scoring: Scoring
) -> tuple[Tensor, Tensor]:
    r"""Output (batch, heads, n_q, d) in q's type and logsumexp (batch, heads, n_q) of what is read.

    Equation: $o_i = \frac{\sum_j e^{s_{ij}} v_j}{e^z + \sum_j e^{s_{ij}}}$
    """
    out, lse = like(q), q.new_empty(q.shape[:3], dtype=torch.promote_types(q.dtype, torch.float32))
    flash = _flash(q, pattern, scoring)
    for run in _runs(q, k, v, pattern):
        if flash and bool(run.seen.any(-1).all()):
            *qkv, bias = run.flat()
            results = flash[0](*qkv, attn_mask=bias, scale=scoring.scale)
            out[:, run.heads, run.rows], lse[:, run.heads, run.rows] = results
            continue
        weights, part, _ = _weights(run, scoring)
        run.write(out, weights @ run.values)
        run.write(lse[..., None], part)
    return out, lse


def backward(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scoring: Scoring, *,
    saved: tuple[Tensor, Tensor] | None, grad: Tensor, grad_lse: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    r"""dQ, dK and dV, like q (batch, heads, n_q, d), k and v, given the gradients of `forward`'s.

    Nothing of what it returned is needed; `saved` lets the flash kernel take it.

    Equation: $P = e^{S - L}, \quad dV = P^T dO, \quad dS = P \circ (dO V^T - dO \cdot O + dL),
    \quad dQ = \lambda\, dS K, \quad dK = \lambda\, dS^T Q$
    """
    dtype = torch.promote_types(q.dtype, torch.float32)
    dq, dk, dv = like(q), *(like(x.to(dtype)).zero_() for x in (k, v))
    flash = _flash(q, pattern, scoring) if saved and grad_lse is None else None
    for run in _runs(q, k, v, pattern):
        if flash and saved and bool(run.seen.any(-1).all()):
            *qkv, bias = run.flat()
            dout, out, lse = (x[:, run.heads, run.rows] for x in (grad, *saved))
            dout, out = (_by_channel(x.to(dtype)) for x in (dout, out))
            arguments = dout, *qkv, out, lse.contiguous(), 0.0, False
            results = flash[1](*arguments, attn_mask=bias, scale=scoring.scale)
            dq[:, run.heads, run.rows] = results[0]
            for total, part in zip((dk, dv), results[1:], strict=True):
                by_head = torch.unflatten(part, 1, run.q.shape[1:3]).sum(2, keepdim=True)
                run.add(total, by_head[:, :, :, None])
            continue
        weights, _, slope = _weights(run, scoring)
        dout = run.of(grad)
        dp = dout @ run.values.transpose(-1, -2)
        ds = dp - (weights * dp).sum(-1, keepdim=True)
        if grad_lse is not None:
            ds = ds + run.of(grad_lse[..., None])
        ds = weights * ds * slope * scoring.scale
        run.write(dq, ds @ run.keys)
        # Heads that share their keys add up.
        run.add(dv, (weights.transpose(-1, -2) @ dout).sum(2, keepdim=True))
        run.add(dk, (ds.transpose(-1, -2) @ run.q).sum(2, keepdim=True))
    return dq, fitted(dk, k), fitted(dv, v)

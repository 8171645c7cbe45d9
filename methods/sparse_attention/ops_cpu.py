"""Grouped-head sparse attention on the CPU: tiles of dense attention, no n x n mask.

Forward, for each tile (see `tiles`), with B the tile's bias:

    S = Q K^T / sqrt(d) + B,    L_i = log sum_j exp S_ij,    O_i = sum_j exp(S_ij - L_i) V_j

Backward from (O, L) alone, as in FlashAttention-2 (2307.08691, section 3.1.2); P is recomputed:

    P = exp(S - L),  D_i = dO_i . O_i,  dV = P^T dO,  dS = P o (dO V^T - D),
    dQ = dS K / sqrt(d),  dK = dS^T Q / sqrt(d)

and the dK, dV of overlapping tiles are summed. Both run inside our own compiled `kernel`, or tile
by tile inside PyTorch's CPU flash kernel, which returns L and takes it back. That operator is
private: its presence is tested, and `attend_portable` does the same tiles by plain matrix products,
softmax and autograd.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..kit.compiling import uncompiled
from . import kernel
from .config import GlobalGroup, Group
from .tiles import Cut, added_own, key_side, own_scores, plan

# Few rows waste less on the band's corners; many feed the matrix kernels better, wait less often
# for all threads and leave fewer gradients to add up. A call's temporaries should fit the cache.
FORWARD = Cut(rows=32, first_rows=128, anchor_rows=320, span=2048)
BACKWARD = Cut(rows=96, first_rows=96, anchor_rows=320, span=384)

# P = exp(S - L) recomputes S, and its rounding grows with S: at 2^14 in float32, P is off by 0.1 %,
# at 10^9 it overflows. Beyond this |L| the backward pass takes the softmax anew instead.
LARGEST_LSE = 2.0**14

_FLASH = "_scaled_dot_product_flash_attention_for_cpu"
HAS_FLASH = hasattr(torch.ops.aten, _FLASH) and hasattr(torch.ops.aten, _FLASH + "_backward")


class _Tensors(NamedTuple):
    """Those of the forward pass, or their gradients: (batch, heads, n, d) all but the logsumexp.

    That is (batch, heads, n), and the forward pass's beside gradients, too.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    lse: Tensor


class _Part(NamedTuple):
    """A group of heads, its part of all tensors, and keys, values as its tiles index them."""

    group: Group
    own: _Tensors
    keys: Tensor
    values: Tensor


def _parts(x: _Tensors, groups: tuple[Group, ...]) -> list[_Part]:
    parts, sharing = [], x.q.shape[1] // x.k.shape[1]
    for group in groups:
        heads, shared = (slice(group.start // by, group.stop // by) for by in (1, sharing))
        own = _Tensors(
            x.q[:, heads], x.k[:, shared], x.v[:, shared], x.out[:, heads], x.lse[:, heads]
        )
        parts.append(_Part(group, own, key_side(own.k, group), key_side(own.v, group)))
    return parts


def _for_kernel(parts: list[_Part]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The keys and values of all parts, and which of them each query sees (`kernel.ranges`)."""
    seen = [kernel.ranges(part.group, part.own.q.shape[2]) for part in parts]
    return [part.keys for part in parts], [part.values for part in parts], seen


@uncompiled
def attend(
    q: Tensor, k: Tensor, v: Tensor, groups: tuple[Group, ...], *, compiled: bool = False
) -> Tensor:
    r"""Sparse attention by tiles, differentiable once; `torch.compile` calls it as it is.

    Equation: $o_i = \sum_j e^{S_{ij} - L_i} v_j, \quad L_i = \log \sum_j e^{S_{ij}}, \quad
    S_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}} + B_{ij}$

    B_ij is 0 where the head's group lets query i see key j, else -inf; j runs over the keys of
    the tile that i is in: tokens, or anchors and, if asked for, token i itself.

    Args:
        q: (batch, heads, n, d_head), float32, float64, bfloat16 or float16.
        k: (batch, heads, n, d_head): one key-value head to every query head; the compiled kernel
            takes fewer, shared in equal runs, unless tokens see themselves beside anchors.
        v: as k.
        groups: which heads see what, covering all heads.
        compiled: by the compiled kernel, which must fit (`kernel.fits`).

    Returns:
        (batch, heads, n, d_head) in q's dtype, laid out as (batch, n, heads, d_head) so that the
        output projection that follows needs no copy.
    """
    out: Tensor = _Attention.apply(q, k, v, groups, compiled)  # type: ignore[no-untyped-call]
    return out


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 - apply passes positions
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, groups: tuple[Group, ...], compiled: bool
    ) -> Tensor:
        q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
        b, h, n, d = q.shape
        out = q.new_empty(b, n, h, d).transpose(1, 2)
        # Softmax, L and sums of gradients are float32, or float64 for float64 inputs.
        lse = q.new_empty(b, h, n, dtype=torch.promote_types(q.dtype, torch.float32))
        saved = _Tensors(q, k, v, out, lse)
        parts = _parts(saved, groups)
        if compiled:
            scoring = kernel.Scoring(1 / math.sqrt(d))
            kernel.forward(q, *_for_kernel(parts), out=out, lse=lse, scoring=scoring)
        for part in parts:
            if not compiled:
                _forward(part)
            if isinstance(part.group, GlobalGroup) and part.group.include_self:
                _add_self(part.own, part.group)
        ctx.save_for_backward(*saved)
        ctx.groups, ctx.compiled = groups, compiled
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved = _Tensors(*ctx.saved_tensors)
        if saved.lse.abs().max() > LARGEST_LSE:
            return (*_exact_backward(saved, grad, ctx.groups), None, None)
        b, h, n, d = saved.q.shape
        dq = saved.q.new_empty(b, n, h, d).transpose(1, 2)
        # Sums over overlapping tiles are kept in the accumulator's precision.
        shared = saved.k.shape[1]
        dk, dv = (saved.lse.new_zeros(b, n, shared, d).transpose(1, 2) for _ in "kv")
        grad = grad if grad.stride(-1) == 1 else grad.contiguous()
        found = _Tensors(dq, dk, dv, grad, saved.lse)
        _backward(saved, found, ctx.groups, compiled=ctx.compiled)
        return dq, dk.to(saved.k.dtype), dv.to(saved.v.dtype), None, None


def _forward(part: _Part) -> None:
    r"""Fill `out` and `lse` for one group's heads.

    Equation: $S = \frac{Q K^T}{\sqrt{d}} + B, \quad L = \log \sum e^S, \quad O = e^{S - L} V$
    """
    flash = getattr(torch.ops.aten, _FLASH).default
    group, s, keys, values = part
    batch, _, n, _ = s.q.shape
    for whole in plan(group, n, FORWARD, s.lse.dtype):
        for b, tile in whole.per_call(batch):
            q = tile.queries(s.q[b])
            out, lse = flash(q, tile.keys(keys[b]), tile.keys(values[b]), attn_mask=tile.bias)
            tile.queries(s.out[b]).copy_(out)
            tile.queries(s.lse[b]).copy_(lse)


def _backward(s: _Tensors, g: _Tensors, groups: tuple[Group, ...], *, compiled: bool) -> None:
    r"""Fill dQ and add to dK, dV.

    Equation: $P = e^{S - L}, \quad D = dO \cdot O, \quad dV = P^T dO, \quad dS = P \circ (dO V^T
    - D), \quad dQ = \frac{dS K}{\sqrt{d}}, \quad dK = \frac{dS^T Q}{\sqrt{d}}$
    """
    # Tiles add into views of dK and dV; pooled anchors have gradients of their own, zero at first,
    # which are spread over the tokens of each afterwards.
    parts, grads = _parts(s, groups), _parts(g, groups)
    if compiled:
        dks, dvs = [part.keys for part in grads], [part.values for part in grads]
        kernel.backward(
            s.q,
            *_for_kernel(parts),
            saved=(s.out, s.lse),
            grad=g.out,
            into=(g.q, dks, dvs),
            scoring=kernel.Scoring(1 / math.sqrt(s.q.shape[-1])),
        )
    for part, (group, own, dk, dv) in zip(parts, grads, strict=True):
        if not compiled:
            _backward_tiles(part, own, dk, dv)
        if isinstance(group, GlobalGroup):
            if group.anchor == "pool":
                _unpool(dk, own.k, group.stride)
                _unpool(dv, own.v, group.stride)
            if group.include_self:
                _add_self_gradients(part.own, own, group)


def _backward_tiles(part: _Part, g: _Tensors, dk: Tensor, dv: Tensor) -> None:
    """The equations of `_backward` for one group's heads; dk and dv are as its tiles index keys."""
    flash_backward = getattr(torch.ops.aten, _FLASH + "_backward").default
    group, s, keys, values = part
    batch, _, n, _ = s.q.shape
    for whole in plan(group, n, BACKWARD, s.lse.dtype):
        for b, tile in whole.per_call(batch):
            dout, q, out, lse = (tile.queries(x[b]) for x in (g.out, s.q, s.out, s.lse))
            tile_dq, tile_dk, tile_dv = flash_backward(
                dout, q, tile.keys(keys[b]), tile.keys(values[b]), out, lse.contiguous(),
                0.0, False, attn_mask=tile.bias,
            )  # fmt: skip
            tile.queries(g.q[b]).copy_(tile_dq)
            tile.add_keys(dk[b], tile_dk)
            tile.add_keys(dv[b], tile_dv)


def _exact_backward(s: _Tensors, grad: Tensor, groups: tuple[Group, ...]) -> tuple[Tensor, ...]:
    """dQ, dK, dV with a softmax that never exceeds 1, whatever the scores: slow, rarely needed."""
    with torch.enable_grad():
        inputs = [x.detach().requires_grad_() for x in (s.q, s.k, s.v)]
        sharing = s.q.shape[1] // s.k.shape[1]
        k, v = (x.repeat_interleave(sharing, 1) for x in inputs[1:])
        out = attend_portable(inputs[0], k, v, groups)
        return tuple(torch.autograd.grad(out, inputs, grad))


def _unpool(part: Tensor, total: Tensor, stride: int) -> None:
    """Add the transpose of `pool_anchors`: an anchor's gradient, spread over the s tokens in it."""
    m = part.shape[2] - 1
    total[:, :, 0] += part[:, :, 0]
    spread = (part[:, :, 1:, None] / stride).expand(-1, -1, -1, stride, -1)
    total[:, :, 1 : 1 + m * stride] += spread.flatten(2, 3)


def _add_self(s: _Tensors, group: GlobalGroup) -> None:
    """Let every token see itself too: one more key each, merged in through the logsumexp."""
    out, lse = added_own(s.out, s.lse, s.q, s.k, s.v, group=group)
    s.out.copy_(out)
    s.lse.copy_(lse)


def _add_self_gradients(s: _Tensors, g: _Tensors, group: GlobalGroup) -> None:
    """The backward equations above for the one key j = i; L already counts it."""
    own = own_scores(s.q.to(s.lse.dtype), s.k.to(s.lse.dtype), group)
    p = torch.exp(own - s.lse)[..., None]
    dout = g.out.to(p.dtype)
    ds = p * (dout * (s.v.to(p.dtype) - s.out.to(p.dtype))).sum(-1, keepdim=True)
    ds /= math.sqrt(s.q.shape[-1])
    g.q.add_(ds * s.k)
    g.k.add_(ds * s.q)
    g.v.add_(p * dout)


def attend_portable(q: Tensor, k: Tensor, v: Tensor, groups: tuple[Group, ...]) -> Tensor:
    r"""The same tiles by public calls alone: slower, with more memory, on any device and PyTorch.

    Equation: $O = \mathrm{softmax} \left( \frac{Q K^T}{\sqrt{d}} + B \right) V$ in every tile

    Arguments and result as `attend`; differentiable any number of times.
    """
    outs = []
    for group in groups:
        heads = slice(group.start, group.stop)
        outs.append(_portable(q[:, heads], k[:, heads], v[:, heads], group))
    return torch.cat(outs, dim=1)


def _portable(q: Tensor, k: Tensor, v: Tensor, group: Group) -> Tensor:
    batch, heads, n, d = q.shape
    dtype = torch.promote_types(q.dtype, torch.float32)
    keys, values, own = key_side(k, group), key_side(v, group), None
    if isinstance(group, GlobalGroup) and group.include_self:
        own = own_scores(q.to(dtype), k.to(dtype), group)  # (batch, heads, n)
    parts = []
    for tile in plan(group, n, FORWARD, dtype):
        queries = tile.queries(q).to(dtype) / math.sqrt(d)
        scores = queries @ tile.keys(keys).to(dtype).transpose(-1, -2) + tile.bias.to(q.device)
        if own is not None:  # one more column: the key of each row's own token
            scores = torch.cat([scores, tile.queries(own)[..., None]], dim=-1)
        weights = torch.softmax(scores, dim=-1)
        part = weights[..., : tile.cols] @ tile.keys(values).to(dtype)
        if own is not None:
            part = part + weights[..., tile.cols :] * tile.queries(v)
        part = torch.unflatten(part.to(q.dtype), 0, (-1, tile.count)).transpose(1, 2)
        parts.append(part.reshape(batch, heads, tile.count * tile.rows, d))
    return torch.cat(parts, dim=2)

"""The key-value cache of grouped-head sparse attention: rings and anchors instead of everything.

A local head needs its last w keys: a ring of w slots, token p in slot p mod w. A global head needs
its anchors: one slot every s tokens. Of n tokens, dense attention keeps n rows a head; here it is
min(w, n) and ceil(n / s). Positions are kept for each sample, so ragged batches decode together.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from methods.errors import InputError
from methods.sparse_attention.api import PaddingSide, left_to_right, right_to_left, sparse_attention
from methods.sparse_attention.config import (
    GlobalGroup,
    LocalGroup,
    SparseAttentionConfig,
    head_groups,
)
from methods.sparse_attention.tiles import pool_anchors


class SparseKVCache:
    """Keys and values of one layer, for `batch` samples of up to `context` tokens.

    Args:
        config: the heads and what they see. The window is resolved here, once, for `context`.
        batch: samples.
        kv_heads: key-value heads; the query heads are `config.heads`.
        d_head: size of a head.
        context: the most tokens that a sample may reach.
        dtype: of keys and values.
        device: where they live.
    """

    def __init__(
        self,
        config: SparseAttentionConfig,
        *,
        batch: int,
        kv_heads: int,
        d_head: int,
        context: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.context = config, context
        self.kv_heads, self.sharing = kv_heads, config.heads // kv_heads
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)  # tokens seen, a sample
        self._most = 0  # an upper bound of `lengths` that needs no look at the device
        groups = head_groups(config, config.heads, context, kv_heads)
        self._stores: list[_Ring | _Anchors] = []
        for group in groups:
            heads = (group.stop - group.start) // self.sharing
            row = torch.zeros(batch, heads, 1, d_head, dtype=dtype, device=device)
            if isinstance(group, LocalGroup):
                self._stores.append(_Ring(group, context, row))
            else:
                self._stores.append(_Anchors(group, context, row))

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values."""
        return sum(x.nbytes for store in self._stores for x in (store.k, store.v))

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        key_lengths: Tensor | None = None,
        padding_side: PaddingSide = "right",
    ) -> Tensor:
        r"""Take in new tokens and attend from them to all that they may see.

        Equation: $o_i = \frac{\sum_j M_{pj} e^{s_{ij}} v_j}{\sum_j M_{pj} e^{s_{ij}}}, \quad
        s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}}, \quad p = L_b + i$

        L_b tokens of sample b came before, M is the mask of the head's group over positions, and
        j runs over all tokens so far (over means where anchors are pooled): row p of
        `sparse_attention` on the whole sequence.

        Args:
            q: (batch, heads, new, d_head).
            k: (batch, kv_heads, new, d_head).
            v: as k.
            key_lengths: (batch,) how many of the new tokens are real; all if not given.
            padding_side: where the padding among the new tokens stands.

        Returns:
            (batch, heads, new, d_head), padding 0.

        Raises:
            InputError: if the tokens do not fit into the context.
        """
        batch, _, new, _ = q.shape
        if self._most + new > self.context:
            raise InputError(
                f"{self._most} cached + {new} new tokens exceed the context of {self.context}"
            )
        if key_lengths is None:
            key_lengths = torch.full((batch,), new, dtype=torch.long, device=q.device)
        elif padding_side == "left":
            moved = (left_to_right(x, key_lengths) for x in (q, k, v))
            out = self.attend(*moved, key_lengths=key_lengths)
            return right_to_left(out, key_lengths)

        steps = torch.arange(new, device=q.device)
        real = steps < key_lengths[:, None]  # (batch, new)
        positions = self.lengths[:, None] + steps  # (batch, new)
        first = self._most == 0
        outs = []
        for store in self._stores:
            h = slice(store.group.start, store.group.stop)
            kv = slice(store.group.start // self.sharing, store.group.stop // self.sharing)
            keys, values = k[:, kv], v[:, kv]
            if first:
                store.fill(keys, values, positions, real)
                continue
            keys, values, mask = store.extend(keys, values, positions, real, self._most + new)
            keys, values = (x.repeat_interleave(self.sharing, 1) for x in (keys, values))
            outs.append(
                F.scaled_dot_product_attention(q[:, h], keys, values, attn_mask=mask[:, None])
            )
        self.lengths = self.lengths + key_lengths
        self._most += new
        if first:
            return sparse_attention(
                q, k, v, self.config, key_lengths=key_lengths, context=self.context
            )
        return torch.cat(outs, dim=1).masked_fill(~real[:, None, :, None], 0.0)


class _Ring:
    """The last `size` keys of a local group."""

    def __init__(self, group: LocalGroup, context: int, row: Tensor) -> None:
        self.group = group
        self.size = min(group.block - group.first_key(0), context)
        self.k, self.v = (row.repeat(1, 1, self.size, 1) for _ in "kv")
        self.positions = torch.full((row.shape[0], self.size), -1, device=row.device)

    def fill(self, k: Tensor, v: Tensor, positions: Tensor, real: Tensor) -> None:
        """Put the last `size` real ones of new tokens into their slots."""
        end = torch.where(real, positions, -1).amax(1, keepdim=True)  # (batch, 1)
        kept = real & (positions > end - self.size)
        b, t = kept.nonzero(as_tuple=True)
        slot = positions[b, t] % self.size
        self.k[b, :, slot] = k[b, :, t].to(self.k.dtype)
        self.v[b, :, slot] = v[b, :, t].to(self.v.dtype)
        self.positions[b, slot] = positions[b, t]

    def extend(
        self, k: Tensor, v: Tensor, positions: Tensor, real: Tensor, most: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values (batch, heads, size + new, d) and mask (batch, new, size + new)."""
        at = torch.cat([self.positions, torch.where(real, positions, -1)], dim=1)[:, None]
        i = positions[..., None]
        reach = -(-self.group.window // self.group.block)
        near = i // self.group.block - at // self.group.block < reach
        keys, values = torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2)
        self.fill(k, v, positions, real)
        return keys, values, (at >= 0) & (at <= i) & near


class _Anchors:
    """Every s-th key of a global group, or the mean of the s keys that end there."""

    def __init__(self, group: GlobalGroup, context: int, row: Tensor) -> None:
        self.group = group
        self.k, self.v = (row.repeat(1, 1, group.anchors(context), 1) for _ in "kv")
        # Sums over the unfinished stride, for pooled anchors.
        self.sums = torch.stack([row[:, :, 0], row[:, :, 0]]).float()  # (2, batch, heads, d)

    def fill(self, k: Tensor, v: Tensor, positions: Tensor, real: Tensor) -> None:
        """Store the anchors among the first tokens of every sample."""
        s = self.group.stride
        if self.group.anchor == "stride":
            self._store(k, v, positions, real)
            return
        m = self.group.anchors(k.shape[2])
        clean_k, clean_v = (x.masked_fill(~real[:, None, :, None], 0.0) for x in (k, v))
        self.k[:, :, :m] = pool_anchors(clean_k, s).to(self.k.dtype)
        self.v[:, :, :m] = pool_anchors(clean_v, s).to(self.v.dtype)
        last = (real.sum(1, keepdim=True) - 1) // s * s  # (batch, 1): the last finished anchor
        open_ = (real & (positions > last))[:, None, :, None]
        self.sums[0] = (clean_k.float() * open_).sum(2)
        self.sums[1] = (clean_v.float() * open_).sum(2)

    def extend(
        self, k: Tensor, v: Tensor, positions: Tensor, real: Tensor, most: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values (batch, heads, m, d) and mask (batch, new, m), m anchors (+ own tokens)."""
        s = self.group.stride
        if self.group.anchor == "stride":
            self._store(k, v, positions, real)
        else:
            for t in range(k.shape[2]):
                self._pool(k[:, :, t], v[:, :, t], positions[:, t], real[:, t])
        m = self.group.anchors(most)
        i = positions[..., None]
        mask = torch.arange(m, device=k.device) * s <= i
        keys, values = self.k[:, :, :m], self.v[:, :, :m]
        if self.group.include_self:
            own = torch.eye(k.shape[2], dtype=torch.bool, device=k.device) & (
                (i % s != 0) | (self.group.anchor == "pool")
            )
            mask = torch.cat([mask, own], dim=2)
            keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        return keys, values, mask

    def _store(self, k: Tensor, v: Tensor, positions: Tensor, real: Tensor) -> None:
        b, t = (real & (positions % self.group.stride == 0)).nonzero(as_tuple=True)
        slot = positions[b, t] // self.group.stride
        self.k[b, :, slot] = k[b, :, t].to(self.k.dtype)
        self.v[b, :, slot] = v[b, :, t].to(self.v.dtype)

    def _pool(self, k: Tensor, v: Tensor, position: Tensor, real: Tensor) -> None:
        """Add one token a sample to the open sums; where an anchor is reached, close them."""
        s = self.group.stride
        self.sums += torch.stack([k, v]).float() * real[:, None, None]
        closed = real & (position % s == 0)
        b = closed.nonzero(as_tuple=True)[0]
        slot = position[b] // s
        count = torch.where(slot == 0, 1, s)[:, None, None]
        self.k[b, :, slot] = (self.sums[0, b] / count).to(self.k.dtype)
        self.v[b, :, slot] = (self.sums[1, b] / count).to(self.v.dtype)
        self.sums *= ~closed[:, None, None]

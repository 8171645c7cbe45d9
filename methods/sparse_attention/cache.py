"""The key-value cache of grouped-head sparse attention: rings and anchors instead of everything.

A local head needs its last w keys: a ring of w slots, token p in slot p mod w. A global head needs
its anchors: one slot every s tokens. Of n tokens, dense attention keeps n rows a head; here it is
min(w, n) and ceil(n / s). Positions are kept for each sample, so ragged batches decode together.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError
from .api import PaddingSide, shifted, sparse_attention, validated
from .config import GlobalGroup, LocalGroup, SparseAttentionConfig, head_groups


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
        groups = head_groups(config, config.heads, context, kv_heads)
        self.config, self.context, self.d_head = config, context, d_head
        self.kv_heads, self.sharing = kv_heads, config.heads // kv_heads
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)  # tokens of each sample
        self._most = 0  # an upper bound of `lengths`, known without waiting for the device
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
        r"""Append new tokens and attend from them to every token that they may see.

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
            InputError: if the tokens do not fit the cache, its context, each other or their
                lengths; the cache is then as it was.
        """
        key_lengths = validated(q, k, v, key_lengths, padding_side)
        batch, heads, new, d_head = q.shape
        given = (batch, heads, k.shape[1], d_head)
        wanted = (len(self.lengths), self.config.heads, self.kv_heads, self.d_head)
        if given != wanted:
            raise InputError(f"batch, heads, kv_heads, d_head: {given}, but the cache has {wanted}")
        if self._most + new > self.context:
            raise InputError(f"{self._most} + {new} tokens exceed the context of {self.context}")
        if key_lengths is None:
            key_lengths = torch.full((batch,), new, dtype=torch.long, device=q.device)
        elif padding_side == "left":
            moved = (shifted(x, key_lengths - new) for x in (q, k, v))
            out = self.attend(*moved, key_lengths=key_lengths)
            return shifted(out, new - key_lengths)

        steps = torch.arange(new, device=q.device)
        real = steps < key_lengths[:, None]  # (batch, new)
        positions = self.lengths[:, None] + steps  # (batch, new)
        first, outs = self._most == 0, []
        for store in self._stores:
            h = slice(store.group.start, store.group.stop)
            kv = slice(store.group.start // self.sharing, store.group.stop // self.sharing)
            if first:
                store.put(k[:, kv], v[:, kv], positions, real)
                continue
            keys, values, mask = store.extend(k[:, kv], v[:, kv], positions, real, self._most + new)
            keys, values = (x.repeat_interleave(self.sharing, 1) for x in (keys, values))
            out = F.scaled_dot_product_attention(q[:, h], keys, values, attn_mask=mask[:, None])
            outs.append(out)
        self.lengths = self.lengths + key_lengths
        self._most += new
        if first:
            return sparse_attention(
                q, k, v, self.config, key_lengths=key_lengths, context=self.context
            )
        return torch.cat(outs, dim=1).masked_fill(~real[:, None, :, None], 0.0)


class _Store:
    """Slots for the keys and values of one group's heads."""

    def __init__(self, slots: int, row: Tensor) -> None:
        self.k, self.v = (row.repeat(1, 1, slots, 1) for _ in "kv")

    def _write(
        self, kept: Tensor, slots: Tensor, k: Tensor, v: Tensor, *, add: bool = False
    ) -> None:
        """Write the new tokens that are `kept` (batch, new) to their slots, or add them."""
        b, t = kept.nonzero(as_tuple=True)
        for held, new in ((self.k, k), (self.v, v)):
            rows = new.transpose(1, 2)[b, t].to(held.dtype)
            held.transpose(1, 2).index_put_((b, slots[b, t]), rows, accumulate=add)


class _Ring(_Store):
    """The last keys of a local group: token p in slot p mod their number."""

    def __init__(self, group: LocalGroup, context: int, row: Tensor) -> None:
        super().__init__(min(group.block - group.first_key(0), context), row)
        self.group = group

    def put(self, k: Tensor, v: Tensor, positions: Tensor, real: Tensor) -> None:
        """Store the last real ones of the new tokens."""
        size = self.k.shape[2]
        end = torch.where(real, positions, -1).amax(1, keepdim=True)  # (batch, 1)
        self._write(real & (positions > end - size), positions % size, k, v)

    def extend(
        self, k: Tensor, v: Tensor, positions: Tensor, real: Tensor, most: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values (batch, heads, size + new, d) and mask (batch, new, size + new)."""
        slots = torch.arange(self.k.shape[2], device=k.device)
        last = positions[:, :1] - 1
        held = last - (last - slots) % len(slots)  # the last position in each slot, or none: < 0
        at = torch.cat([held, torch.where(real, positions, -1)], dim=1)[:, None]
        i, block = positions[..., None], self.group.block
        near = i // block - at // block < -(-self.group.window // block)
        keys = torch.cat([self.k.to(k.dtype), k], dim=2)  # (batch, heads, size + new, d)
        values = torch.cat([self.v.to(v.dtype), v], dim=2)  # (batch, heads, size + new, d)
        self.put(k, v, positions, real)
        return keys, values, (at >= 0) & (at <= i) & near


class _Anchors(_Store):
    """Every s-th key of a global group, or the mean of the s keys that end there.

    A mean grows token by token, in single precision at least; it is not read before it is complete.
    """

    def __init__(self, group: GlobalGroup, context: int, row: Tensor) -> None:
        self.group, self.pooled = group, group.anchor == "pool"
        dtype = torch.promote_types(row.dtype, torch.float32) if self.pooled else row.dtype
        super().__init__(group.anchors(context), row.to(dtype))

    def put(self, k: Tensor, v: Tensor, positions: Tensor, real: Tensor) -> None:
        """Store the anchors among the new tokens, or add each token to its anchor's mean."""
        slots = -(-positions // self.group.stride)  # anchor t ends tokens (t - 1) s + 1 .. t s
        if not self.pooled:
            self._write(real & (positions % self.group.stride == 0), slots, k, v)
            return
        whole = real & (slots < self.k.shape[2])  # others end beyond the context
        count = torch.where(slots == 0, 1, self.group.stride)[:, None, :, None]
        dtype = self.k.dtype
        self._write(whole, slots, k.to(dtype) / count, v.to(dtype) / count, add=True)

    def extend(
        self, k: Tensor, v: Tensor, positions: Tensor, real: Tensor, most: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values (batch, heads, m, d) and mask (batch, new, m), m anchors (+ own tokens)."""
        self.put(k, v, positions, real)
        s, m = self.group.stride, self.group.anchors(most)
        i = positions[..., None]
        mask = torch.arange(m, device=k.device) * s <= i
        keys, values = self.k[:, :, :m].to(k.dtype), self.v[:, :, :m].to(v.dtype)
        if self.group.include_self:
            itself = torch.eye(k.shape[2], dtype=torch.bool, device=k.device)
            mask = torch.cat([mask, itself & ((i % s != 0) | self.pooled)], dim=2)
            keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        return keys, values, mask

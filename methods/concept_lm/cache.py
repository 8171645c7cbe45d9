"""Keys and values of one group of layers while decoding, and Qwen's layers run with them.

transformers' layers copy every key and value at each step once rows are not in step: to repeat
them for the heads that share a key head, and to pad them. Here heads that share keys stand beside
each other as queries, rows out of step look each at its own buffer, and nothing is copied.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class SlotCache:
    """Buffers with a write pointer a row, allocated once and doubled when full.

    Args:
        rows: of the batch.
        capacity: entries a row to begin with.
        window: how many entries a query may look back over, its own included; 0 is all.
    """

    def __init__(self, rows: int, capacity: int = 64, window: int = 0) -> None:
        self.lengths = torch.zeros(rows, dtype=torch.long)
        self.capacity, self.window = capacity, window
        self.buffers: dict[int, Tensor] = {}  # by layer: keys and values, (2, rows, kv_heads, ..)
        self._rows = torch.arange(rows)  # those that are opened
        self._places: list[tuple[slice, slice, int]] = []  # their rows here, in x, and pointer

    def open(self, new: int, rows: Tensor | None = None) -> Tensor:
        r"""Announce that `new` entries of `rows` come next, of all where not given: their slots.

        Equation: $\mathrm{slot}_{bi} = l_b + i, \quad 0 \le i < \mathrm{new}$

        Returns:
            (rows, new).
        """
        self._rows = torch.arange(len(self.lengths)) if rows is None else rows
        first = self.lengths[self._rows]
        at = first.tolist()
        each = [slice(row, row + 1) for row in range(len(self.lengths))]
        self._places = [(each[row], each[i], at[i]) for i, row in enumerate(self._rows.tolist())]
        if len(at) == len(each) and len(set(at)) == 1:  # all rows, at one pointer
            self._places = [(slice(None), slice(None), at[0])]
        while self.capacity < max(at) + new:
            more = (0, 0, 0, self.capacity)
            self.buffers = {layer: F.pad(both, more) for layer, both in self.buffers.items()}
            self.capacity *= 2
        return first[:, None] + torch.arange(new)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        r"""Write new keys and values at the pointers, and let their queries look at what is there.

        Query i of row b stands in slot l_b + i, l_b being what the row holds; w is the window, no
        bound where it is 0.

        Equation: $K_{b, l_b + i} = k_{bi}, \quad V_{b, l_b + i} = v_{bi}, \quad
        o_{bi} = \mathrm{Attention}(q_{bi}, K_{bj}, V_{bj} : l_b + i - w < j \le l_b + i)$

        Args:
            q: (rows, heads, new, d_head).
            k, v: (rows, kv_heads, new, d_head).
            layer: index of the decoder layer.

        Returns:
            (rows, heads, new, d_head).
        """
        if layer not in self.buffers:
            shape = (2, len(self.lengths), k.shape[1], self.capacity, k.shape[3])
            self.buffers[layer] = k.new_zeros(shape)
        keys, values = self.buffers[layer]
        out = []
        for rows, part, at in self._places:
            end = at + k.shape[2]
            keys[rows, :, at:end], values[rows, :, at:end] = k[part], v[part]
            out.append(attention(q[part], keys[rows, :, :end], values[rows, :, :end], self.window))
        return torch.cat(out)

    def advance(self, counts: Tensor | int) -> None:
        r"""Keep `counts` (rows,) of the entries just written, for each row that was opened.

        Equation: $l_b \leftarrow l_b + \mathrm{counts}_b$
        """
        self.lengths[self._rows] += counts

    def evict(self, counts: Tensor, rows: Tensor) -> None:
        r"""Forget the last `counts` (n,) entries of `rows` (n,): what follows overwrites them.

        Equation: $l_b \leftarrow l_b - \mathrm{counts}_b$
        """
        assert bool((counts <= self.lengths[rows]).all()), "evicting more than is cached"
        self.lengths[rows] -= counts

    def bytes(self) -> int:
        r"""Bytes of the keys and values that are live, over all rows and layers.

        Equation: $\mathrm{bytes} = \sum_b l_b \sum_{layers} 2 \, H_{kv} \, d_{head} \,
        \mathrm{size}$
        """
        per_slot = sum(both[:, 0, :, 0].nbytes for both in self.buffers.values())
        return per_slot * int(self.lengths.sum())


def attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    r"""The last n of m entries look back, causally, over `window` of them (0: all).

    (B, H, n, D) queries, (B, H_kv, m, D) keys and values -> (B, H, n, D).

    Equation: $o_i = \sum_j \mathrm{softmax}_j(q_i \cdot k_j / \sqrt{D}) v_j, \quad
    m - n + i - w < j \le m - n + i$
    """
    (B, H, n, D), m = q.shape, k.shape[2]
    if n == m and not window:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    mask = None
    if n == 1:
        start = max(0, m - window) if window else 0
        k, v = k[:, :, start:], v[:, :, start:]
    else:
        back = torch.arange(m - n, m, device=q.device)[:, None] - torch.arange(m, device=q.device)
        allow = (back >= 0) & (back < window) if window else back >= 0
        mask = allow.repeat(H // k.shape[1], 1)  # the same for each head of a group
    grouped = q.reshape(B, k.shape[1], -1, D)  # heads that share a key head, as its queries
    return F.scaled_dot_product_attention(grouped, k, v, attn_mask=mask).reshape(B, H, n, D)


def run_cached(
    layers: list[Any], rope: tuple[Tensor, Tensor], x: Tensor, cache: SlotCache
) -> Tensor:
    r"""Qwen's decoder layers over the entries that a cache was opened for: (B, n, d) -> (B, n, d).

    `rope` are cosines and sines of the positions, (B or 1, n, d_head).

    Equation: $a = x_l + \mathrm{Attention}_l(\mathrm{norm}(x_l)), \quad
    x_{l + 1} = a + \mathrm{MLP}_l(\mathrm{norm}'(a))$
    """
    cos, sin = (part[:, None] for part in rope)  # (B, 1, n, D)
    half = sin.shape[-1] // 2
    turned = torch.cat([-sin[..., :half], sin[..., half:]], -1)
    B, n, _ = x.shape
    for layer in layers:
        attention, seen = layer.self_attn, layer.input_layernorm(x)
        q, k, v = (
            part(seen).view(B, n, -1, attention.head_dim)
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        if hasattr(attention, "q_norm"):
            q, k = attention.q_norm(q), attention.k_norm(k)
        heads = torch.cat([q, k], 2).transpose(1, 2)  # one rotation for both
        heads = torch.addcmul(heads * cos, heads.roll(half, -1), turned)
        q, k = heads[:, : q.shape[2]], heads[:, q.shape[2] :]
        mixed = cache.attend(q, k, v.transpose(1, 2), attention.layer_idx)
        x = x + attention.o_proj(mixed.transpose(1, 2).reshape(B, n, -1))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    return x

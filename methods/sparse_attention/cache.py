"""Key-value cache of grouped heads: the last w keys of local heads, the anchors of global ones.

Of n tokens, dense attention keeps n rows a head; here it is min(w, n) and ceil(n / s). Samples of a
batch have the same length: for padded prompts use `hugging_face.SparseCache`.
"""

import math

import torch
from torch import Tensor

from ..errors import InputError
from .block_sparse import attend, check_inputs
from .config import Group, LocalGroup, SparseAttentionConfig, head_groups
from .pattern import Pattern, Scoring, reach


class SparseKVCache:
    """Keys and values of one layer, for samples of up to `context` tokens.

    Args:
        config: the heads and their patterns. The window is resolved once, for `context`.
        kv_heads: key-value heads; the query heads are `config.heads`.
        context: the most tokens that a sample may reach.

    Raises:
        InputError: if the heads cannot share the key-value heads.
    """

    def __init__(self, config: SparseAttentionConfig, *, kv_heads: int, context: int) -> None:
        self.groups = head_groups(config, config.heads, context, kv_heads)
        self.heads, self.kv_heads, self.context = config.heads, kv_heads, context
        self.length = 0  # tokens of each sample
        # Keys and values of each group: (batch, its key heads, rows, d_head).
        self.stored: list[tuple[Tensor, Tensor]] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values."""
        return sum(x.nbytes for pair in self.stored for x in pair)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        r"""Append new tokens; attend from each of them to every token that it may see.

        Equation: $o_i = \frac{\sum_j M_{pj} e^{s_{ij}} v_j}{\sum_j M_{pj} e^{s_{ij}}}, \quad
        s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}}, \quad p = L + i$

        L tokens came before, M is the mask of the head's group over positions, and j runs over all
        tokens so far: row p of `sparse_attention` on the whole sequence.

        Args:
            q: (batch, heads, new, d_head), float32, float64, bfloat16 or float16.
            k: (batch, kv_heads, new, d_head).
            v: as k.

        Returns:
            (batch, heads, new, d_head) in q's dtype.

        Raises:
            InputError: if the tokens do not fit the cache, its context or each other; the cache is
                then as it was.
        """
        self._check(q, k, v)
        sharing, scoring = self.heads // self.kv_heads, Scoring(1 / math.sqrt(q.shape[3]))
        stored, outs = [], []
        for g, group in enumerate(self.groups):
            shared = slice(group.start // sharing, group.stop // sharing)
            # A local head may read every new token, a global head the anchors among them.
            every = 1 if isinstance(group, LocalGroup) else group.stride
            keys, values = (x[:, shared, -self.length % every :: every] for x in (k, v))
            if self.stored:
                past = self.stored[g]
                keys, values = (torch.cat(x, dim=2) for x in zip(past, (keys, values), strict=True))
            heads = q[:, group.start : group.stop]
            out, _ = attend(heads, keys, values, self._pattern(group, q, keys), scoring, "auto")
            outs.append(out)
            last = group.window if isinstance(group, LocalGroup) else keys.shape[2]
            stored.append((keys[:, :, -last:].clone(), values[:, :, -last:].clone()))
        self.stored, self.length = stored, self.length + q.shape[2]
        return torch.cat(outs, dim=1)

    def _pattern(self, group: Group, q: Tensor, keys: Tensor) -> Pattern:
        """The keys that each new query reads, counted from the first one that is stored."""
        new, n, device = q.shape[2], keys.shape[2], q.device
        if isinstance(group, LocalGroup):
            options = {"offset": n - new, "window": group.window}
            ranges = reach(new, n, **options, causal=True, device=str(device))
        else:
            end = torch.arange(self.length, self.length + new, device=device) // group.stride + 1
            ranges = torch.stack([torch.zeros_like(end), end]).int()[None, None]
        return Pattern(ranges, (group.stop - group.start,), (1,))

    def _check(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        check_inputs(q, k, v)
        batch, heads, new, d_head = q.shape
        given: tuple[object, ...] = (batch, heads, k.shape[1], d_head, q.dtype)
        expected: tuple[object, ...] = (batch, self.heads, self.kv_heads, d_head, q.dtype)
        if self.stored:
            first = self.stored[0][0]
            expected = (first.shape[0], *expected[1:3], first.shape[3], first.dtype)
        if given != expected:
            named = "batch, heads, kv_heads, d_head, dtype"
            raise InputError(f"{named}: {given}, but the cache has {expected}")
        if k.shape[2] != new:
            raise InputError(f"{new} queries have {k.shape[2]} keys; there must be as many")
        if self.length + new > self.context:
            raise InputError(f"{self.length} + {new} tokens exceed the context of {self.context}")

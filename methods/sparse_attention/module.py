"""The layer: projections around `sparse_attention`, with a cache for decoding."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor, nn

from ..errors import InputError
from .api import PaddingSide, sparse_attention
from .cache import SparseKVCache
from .config import SparseAttentionConfig, head_groups
from .probes import Intermediate


class AttentionResult(NamedTuple):
    """What the layer returns; `intermediate` is None unless it was asked for."""

    output: Tensor
    intermediate: Intermediate | None


class SparseAttention(nn.Module):
    """Multi-head attention with grouped heads, in the place of GPT-2's.

    Args:
        n_embd: width of the model, divisible by the heads.
        config: the heads and what they see.
        context: the most tokens; the adaptive window is resolved for it, once.
        kv_heads: key-value heads, fewer than the heads for grouped-query attention.

    Raises:
        InputError: if the heads do not divide the width or fit the configuration.
    """

    def __init__(
        self,
        n_embd: int,
        config: SparseAttentionConfig,
        *,
        context: int,
        kv_heads: int | None = None,
    ) -> None:
        super().__init__()
        if n_embd % config.heads:
            raise InputError(f"n_embd {n_embd} does not divide into {config.heads} heads")
        self.config, self.context = config, context
        self.kv_heads = config.heads if kv_heads is None else kv_heads
        head_groups(config, config.heads, context, self.kv_heads)  # refuses what does not fit
        self.d_head = n_embd // config.heads
        self.c_attn = nn.Linear(n_embd, n_embd + 2 * self.kv_heads * self.d_head)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(
        self,
        x: Tensor,
        *,
        key_lengths: Tensor | None = None,
        padding_side: PaddingSide = "right",
        cache: SparseKVCache | None = None,
        return_intermediate: bool = False,
    ) -> AttentionResult:
        r"""(batch, n, n_embd) -> (batch, n, n_embd) and, if asked for, what was attended to.

        Equation: $y = W_o [o^h]_h + b_o, \quad o = \mathrm{SparseAttn}(q, k, v), \quad
        [q, k, v] = W x + b$

        SparseAttn is `sparse_attention`, or the cache's `attend` on what it holds as well;
        `key_lengths` (batch,) are the real tokens of x.

        Raises:
            InputError: if the tokens exceed the context.
        """
        if x.shape[1] > self.context:
            raise InputError(f"{x.shape[1]} tokens exceed the context of {self.context}")
        kv_width = self.kv_heads * self.d_head
        parts = self.c_attn(x).split([x.shape[2], kv_width, kv_width], dim=2)
        # (batch, heads or kv_heads, n, d_head), views
        q, k, v = (part.unflatten(2, (-1, self.d_head)).transpose(1, 2) for part in parts)
        attend: Callable[..., Tensor]
        attend = partial(sparse_attention, config=self.config, context=self.context)
        if cache is not None:
            attend = cache.attend
        out = attend(q, k, v, key_lengths=key_lengths, padding_side=padding_side)
        out = self.c_proj(out.transpose(1, 2).flatten(2))
        return AttentionResult(out, self.describe(x.shape[1]) if return_intermediate else None)

    def describe(self, n: int) -> Intermediate:
        """What this layer attends to among n tokens."""
        return Intermediate(self.config, n, self.context)

    def new_cache(self, batch: int) -> SparseKVCache:
        """An empty cache for `batch` samples, on the layer's device and in its dtype."""
        weight = self.c_attn.weight
        return SparseKVCache(
            self.config,
            batch=batch,
            kv_heads=self.kv_heads,
            d_head=self.d_head,
            context=self.context,
            dtype=weight.dtype,
            device=weight.device,
        )

"""Attention layer with grouped heads: projections around `sparse_attention`."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

from ..errors import InputError
from .api import sparse_attention
from .cache import SparseKVCache
from .config import SparseAttentionConfig, head_groups, resolve_window, sparsity_ratio
from .oracle import head_masks

LONGEST_MASK = 2048  # tokens; a mask of 2048 x 2048 takes 4 MiB a head


@dataclass(frozen=True)
class Intermediate:
    """Description of a forward pass over `n` tokens, by a layer made for `context` of them."""

    config: SparseAttentionConfig
    n: int
    context: int

    @property
    def window(self) -> int:
        """Window of the local heads, in keys, the token itself included."""
        return resolve_window(self.config, self.context)

    @property
    def sparsity_ratio(self) -> float:
        """Share of the n * n pairs that are not computed, averaged over heads."""
        return sparsity_ratio(self.config, self.n, self.context)

    def head_masks(self) -> Tensor:
        r"""Masks of all heads, (heads, n, n) bool, True where a query reads a key.

        Equation: $M_{hij} = M^G_{ij}, \quad \mathrm{start}_G \le h < \mathrm{stop}_G$

        Raises:
            InputError: above 2,048 tokens.
        """
        if self.n > LONGEST_MASK:
            limit = f"masks are limited to n = {LONGEST_MASK}, not {self.n}"
            raise InputError(f"{limit}; sparsity_ratio and window need none")
        return head_masks(self.config, self.n, self.context)


class AttentionResult(NamedTuple):
    """Output (batch, n, n_embd) of a layer; `intermediate` is None unless it was asked for."""

    output: Tensor
    intermediate: Intermediate | None


class SparseAttention(nn.Module):
    """Multi-head attention with grouped heads, in the place of GPT-2's.

    Args:
        n_embd: width of the model, divisible by the heads.
        config: the heads and their patterns.
        context: the most tokens; an adaptive window is resolved for it, once.
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
        self.c_attn = nn.Linear(n_embd, n_embd + 2 * self.kv_heads * self.d_head)  # GPT-2's names
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(
        self, x: Tensor, *, cache: SparseKVCache | None = None, return_intermediate: bool = False
    ) -> AttentionResult:
        r"""Attend among x (batch, n, n_embd), and to the tokens that a cache holds before it.

        Equation: $y = W_o [o^h]_h + b_o, \quad o = \mathrm{SparseAttn}(q, k, v), \quad
        [q, k, v] = W x + b$

        Raises:
            InputError: if the tokens exceed the context.
        """
        if x.shape[1] > self.context:
            raise InputError(f"{x.shape[1]} tokens exceed the context of {self.context}")
        kv_width = self.kv_heads * self.d_head
        parts = self.c_attn(x).split([x.shape[2], kv_width, kv_width], dim=2)
        # (batch, heads or kv_heads, n, d_head), views
        q, k, v = (part.unflatten(2, (-1, self.d_head)).transpose(1, 2) for part in parts)
        if cache is None:
            out = sparse_attention(q, k, v, self.config, context=self.context)
        else:
            out = cache.attend(q, k, v)
        seen = Intermediate(self.config, x.shape[1], self.context)
        out = self.c_proj(out.transpose(1, 2).flatten(2))
        return AttentionResult(out, seen if return_intermediate else None)

    def new_cache(self) -> SparseKVCache:
        """An empty cache."""
        return SparseKVCache(self.config, kv_heads=self.kv_heads, context=self.context)

"""Peers of grouped-head sparse attention, each behind one call `f(q, k, v)`.

Dense attention and the masks that a first implementation uses compute the same shapes or the very
same function; the published libraries compute *their* pattern, and say so in their labels.
"""

import math
import shutil
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import SparseAttentionConfig, head_groups
from .pattern import Scoring, of_groups

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    r"""PyTorch's fused causal attention: (batch, heads, n, d) each -> the same.

    Equation: $o_i = \sum_{j \le i} \frac{e^{s_{ij}}}{\sum_{l \le i} e^{s_{il}}} v_j, \quad
    s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}}$
    """
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def naive(mask: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    r"""Scores of all n x n pairs, filled with -inf outside the mask, as in textbooks.

    (batch, heads, n, d) each -> the same. M is `mask`, (heads, n, n) bool (`oracle.head_masks`).

    Equation: $o_i = \sum_j \frac{M_{ij} e^{s_{ij}}}{\sum_l M_{il} e^{s_{il}}} v_j, \quad
    s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}}$
    """
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1) @ v


def sdpa_mask(mask: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    r"""PyTorch's fused attention with the same mask as a bool tensor: the same as `naive`.

    Equation: $o_i = \sum_j \frac{M_{ij} e^{s_{ij}}}{\sum_l M_{il} e^{s_{il}}} v_j$
    """
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def flex(config: SparseAttentionConfig, n: int) -> Attention | None:
    """FlexAttention compiled on the CPU, a call for each kind of head; None without a compiler.

    On a GPU that is our own backend, so there it is no peer. On the CPU it has no backward.
    """
    if not (shutil.which("c++") or shutil.which("g++")):
        return None
    from . import flex as by_flex  # noqa: PLC0415 - starts the compiler

    read = of_groups(head_groups(config, config.heads, n), n, "cpu")

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scoring = Scoring(1 / math.sqrt(q.shape[-1]))
        return by_flex.attend(q, k, v, read, scoring, compiled=True)[0]

    return attend


def local_attention(window: int) -> Attention:
    """The local-attention library: every head a causal window of `window` (+ 1), nothing global."""
    from local_attention import LocalAttention  # noqa: PLC0415 - a peer, only needed here

    layer: Attention = LocalAttention(
        window_size=window,
        causal=True,
        look_backward=1,
        exact_windowsize=True,
        autopad=True,
        use_rotary_pos_emb=False,
    )
    return layer


class _Given(nn.Module):
    """Replaces a projection of a transformers layer: returns q, k or v unchanged."""

    x: Tensor  # set by `_by_layer` before each call

    def forward(self, _: Tensor) -> Tensor:
        return self.x.clone()  # Longformer scales its queries in place


def _by_layer(
    layer: Any, q: Tensor, k: Tensor, v: Tensor, *, seq_first: bool = False, **masks: Any
) -> Tensor:
    """Run a layer with q, k, v (batch, heads, n, d) in place of its projections' outputs."""
    for projection, x in ((layer.query, q), (layer.key, k), (layer.value, v)):
        flat = x.transpose(1, 2).flatten(2)  # (batch, n, heads * d)
        projection.x = flat.transpose(0, 1) if seq_first else flat
    out: Tensor = layer(torch.empty_like(flat), **masks)[0]
    return out


def longformer(heads: int, d_head: int, window: int, n: int) -> Attention:
    """Longformer's sliding chunks (transformers): half a window on either side, not causal."""
    from transformers import LongformerConfig  # noqa: PLC0415 - slow, only needed here
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention  # noqa: PLC0415

    window += window % 2
    while n % window:  # the layer wants whole windows
        window -= 2
    config = LongformerConfig(
        hidden_size=heads * d_head,
        num_attention_heads=heads,
        attention_window=[window],
        num_hidden_layers=1,
        attention_probs_dropout_prob=0.0,
    )
    layer: Any = LongformerSelfAttention(config, 0)
    layer.query, layer.key, layer.value = _Given(), _Given(), _Given()

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch, _, n, _ = q.shape
        masks = {
            "attention_mask": q.new_zeros(batch, n),
            "is_index_masked": torch.zeros(batch, n, dtype=torch.bool, device=q.device),
            "is_global_attn": False,
        }
        return _by_layer(layer, q, k, v, seq_first=True, **masks)

    return attend


def big_bird(heads: int, d_head: int, n: int, block: int = 64) -> Attention:
    """BigBird's block-sparse attention (transformers): 3 near, 2 global, 3 random blocks of 64."""
    from transformers import BigBirdConfig, BigBirdModel  # noqa: PLC0415 - slow, only needed here
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention  # noqa: PLC0415

    config = BigBirdConfig(
        hidden_size=heads * d_head,
        num_attention_heads=heads,
        block_size=block,
        num_random_blocks=3,
        max_position_embeddings=n,
        attention_probs_dropout_prob=0.0,
        use_bias=False,
    )
    layer: Any = BigBirdBlockSparseAttention(config, seed=0)
    layer.query, layer.key, layer.value = _Given(), _Given(), _Given()

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ones = q.new_ones(q.shape[0], q.shape[2])
        blocked, band, from_mask, to_mask = BigBirdModel.create_masks_for_block_sparse_attn(
            ones, block
        )
        masks = {
            "band_mask": band,
            "from_mask": from_mask,
            "to_mask": to_mask,
            "from_blocked_mask": blocked,
            "to_blocked_mask": blocked,
        }
        return _by_layer(layer, q, k, v, **masks)

    return attend

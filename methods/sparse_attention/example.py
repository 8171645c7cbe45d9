"""A layer of sparse attention on a few tokens: what `read` runs to show its shapes."""

import torch

from .config import SparseAttentionConfig
from .module import SparseAttention
from .oracle import oracle_attention


def main() -> None:
    """Forward and backward of a layer, its definition, and cached decoding."""
    batch, n, width = 2, 40, 96
    config = SparseAttentionConfig(4, 2, 16, adaptive_window=False, anchor="pool")
    layer = SparseAttention(width, config, context=64)
    x = torch.randn(batch, n, width)  # (batch, n, width)
    out = layer(x).output  # (batch, n, width)
    torch.autograd.backward(out.square().mean())
    q, k, v = torch.randn(3, batch, config.heads, n, 16)  # (batch, 6, n, 16) each
    oracle_attention(q, k, v, config)
    with torch.no_grad():
        cache = layer.new_cache(batch)
        layer(x, cache=cache)
        layer(x[:, :1], cache=cache)

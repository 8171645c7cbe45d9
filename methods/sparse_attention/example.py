"""Example of a layer on a few tokens, which `methods read` runs to show its shapes."""

import torch

from .block_sparse import block_sparse_attention
from .config import SparseAttentionConfig
from .module import SparseAttention
from .oracle import oracle_attention
from .selectors import MeanPooled


def main() -> None:
    """Forward and backward of a layer, its definition, chosen blocks, and cached decoding."""
    batch, n, width = 2, 40, 96
    config = SparseAttentionConfig(4, 2, 16, adaptive_window=False)
    layer = SparseAttention(width, config, context=64)
    x = torch.randn(batch, n, width)  # (batch, n, width)
    out = layer(x).output  # (batch, n, width)
    torch.autograd.backward(out.square().mean())
    q, k, v = torch.randn(3, batch, config.heads, n, 16)  # (batch, 6, n, 16) each
    oracle_attention(q, k, v, config)
    selector = MeanPooled(top=1, key_block=8)
    blocks = selector(q, k)  # (batch, 6, n, 3)
    block_sparse_attention(q, k, v, blocks, key_block=selector.key_block)
    with torch.no_grad():
        cache = layer.new_cache()
        layer(x, cache=cache)
        layer(x[:, :1], cache=cache)

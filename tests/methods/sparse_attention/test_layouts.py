"""Tensors may lie in memory in any order: caches and einsum give them with channels anywhere."""

import math
from itertools import permutations

import pytest
import torch
from torch import Tensor

from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.block_sparse import block_sparse_attention
from methods.sparse_attention.checks import backends
from methods.sparse_attention.config import SparseAttentionConfig

N, BLOCK = 150, 16  # tokens, keys of a block
CONFIG = SparseAttentionConfig(4, 2, 40, adaptive_window=False)
LISTED = torch.stack([torch.arange(N) // BLOCK, torch.zeros(N).long()], -1)[None, None]
BOUNDS = {torch.float32: 1e-4, torch.float64: 1e-9, torch.bfloat16: 0.1, torch.float16: 2e-2}


def dense_mask(kind: str) -> Tensor:
    """The keys that each query reads, (heads or 1, n, n), by plain loops."""
    causal = torch.ones(N, N, dtype=torch.bool).tril()
    i, j = torch.arange(N)[:, None], torch.arange(N)
    if kind == "dense":
        return causal[None]
    if kind == "chosen":
        return (causal & ((j // BLOCK == i // BLOCK) | (j < BLOCK)))[None]
    window, anchors = causal & (i - j < 40), causal & (j % CONFIG.stride == 0)
    return torch.stack([window] * 4 + [anchors] * 2)


def reference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(~mask, -math.inf), -1) @ v


def attend(kind: str, q: Tensor, k: Tensor, v: Tensor, backend: str) -> Tensor:
    if kind == "grouped":
        return sparse_attention(q, k, v, CONFIG, backend=backend)  # type: ignore[arg-type]
    blocks = LISTED if kind == "chosen" else None
    options = {"query_block": 1, "key_block": BLOCK, "backend": backend}
    return block_sparse_attention(q, k, v, blocks, **options)  # type: ignore[arg-type]


def laid_out(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """The same numbers, with the dimensions in memory in this order."""
    back = [order.index(dim) for dim in range(4)]
    return x.permute(order).contiguous().permute(back).detach().requires_grad_()


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("kind", ["grouped", "dense", "chosen"])
def test_outputs_and_gradients_are_the_same_in_any_layout(kind: str, dtype: torch.dtype) -> None:
    shapes = (6, 3, 3) if kind != "grouped" else (6, 6, 6)
    drawn = [torch.randn(2, heads, N, 8, dtype=dtype) for heads in shapes]
    exact = [x.double().requires_grad_() for x in drawn]
    wanted = reference(*exact, dense_mask(kind))
    wanted.sum().backward()
    for backend in {name for name in backends("cpu", dtype) if name != "flex"}:
        for order in permutations(range(4)):
            given = [laid_out(x, order) for x in drawn]
            out = attend(kind, *given, backend)
            out.sum().backward()  # an expanded gradient, without strides
            bound = {"rtol": BOUNDS[dtype], "atol": BOUNDS[dtype]}
            torch.testing.assert_close(out.double(), wanted, **bound, msg=f"{backend} {order}")
            for x, y in zip(given, exact, strict=True):
                torch.testing.assert_close(
                    x.grad.double(), y.grad, rtol=bound["rtol"], atol=20 * bound["atol"]
                )

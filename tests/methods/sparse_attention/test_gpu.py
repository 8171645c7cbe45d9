"""The GPU backend: its meaning on the CPU, its kernels where there is a GPU."""

import pytest
import torch

from methods import registry
from methods.sparse_attention import ops_gpu
from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.checks import relative_error
from methods.sparse_attention.config import GlobalGroup, LocalGroup, SparseAttentionConfig
from methods.sparse_attention.oracle import group_mask, masked_attention
from methods.sparse_attention.spec import METHOD

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("n", [1, 9, 10, 11, 95, 200])
@pytest.mark.parametrize("include_self", [False, True])
def test_a_rectangle_of_anchors_is_attention_to_them(n: int, include_self: bool) -> None:
    """Four query heads share two key heads; gradients flow through the logsumexp, too."""
    q = torch.randn(2, 4, n, 8, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, 2, n, 8, dtype=torch.float64, requires_grad=True) for _ in "kv")
    group = GlobalGroup(0, 4, 10, include_self=include_self)
    out = ops_gpu.attend_group(q, k, v, group)
    mask = group_mask(group, n)
    wanted = masked_attention(q, *(x.repeat_interleave(2, 1) for x in (k, v)), mask)
    torch.testing.assert_close(out, wanted)
    grad = torch.randn_like(out)
    for a, b in zip(
        torch.autograd.grad(out, [q, k, v], grad),
        torch.autograd.grad(wanted, [q, k, v], grad),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_groups_take_the_key_heads_that_are_theirs() -> None:
    config = SparseAttentionConfig(4, 2, 20, adaptive_window=False)
    q, (k, v) = torch.randn(1, 6, 90, 16), (torch.randn(1, 3, 90, 16) for _ in "kv")
    found = sparse_attention(q, k, v, config, backend="gpu")
    wanted = sparse_attention(q, k, v, config, backend="reference")
    assert relative_error(found, wanted) < 1e-5


def test_block_masks_are_kept() -> None:
    first = ops_gpu._block_mask(LocalGroup(0, 1, 64), 300, "cpu")
    assert ops_gpu._block_mask(LocalGroup(0, 1, 64), 300, "cpu") is first
    assert ops_gpu._block_mask(LocalGroup(0, 1, 65), 300, "cpu") is not first


def test_the_ninth_shape_is_compiled_too() -> None:
    """By default dynamo gives up at the ninth, and n x n scores are held without a word."""
    lengths: list[int] = []

    def counting(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        lengths.append(inputs[0].shape[2])
        return graph.forward

    compiled = ops_gpu.compiled_flex(counting)
    for n in range(40, 52):
        q, k, v = (torch.randn(1, 1, n, 16) for _ in "qkv")
        mask = ops_gpu._block_mask(LocalGroup(0, 1, 9), n, "cpu")
        found = compiled(q, k, v, block_mask=mask)
        assert relative_error(found, ops_gpu.attend_group(q, k, v, LocalGroup(0, 1, 9))) < 1e-5
    assert lengths == [*range(40, 52)]


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("row", METHOD.checks, ids=lambda row: row.name)
def test_every_row_passes_on_a_gpu(row: object) -> None:
    cases = list(registry.load("sparse_attention", row.entry)("cuda"))  # type: ignore[attr-defined]
    assert cases
    assert all(case.passed for case in cases), [case for case in cases if not case.passed]


@pytest.mark.gpu
@needs_gpu
def test_compiled_windows_agree_with_tiles() -> None:
    from methods.sparse_attention.ops_cpu import attend_portable

    q, k, v = (torch.randn(1, 4, 3000, 64, device="cuda") for _ in "qkv")
    group = LocalGroup(0, 4, 300)
    tiles = attend_portable(q, k, v, (group,))
    assert (
        relative_error(ops_gpu.attend_group(q, k, v, group, compiled=True), tiles) < 2e-3
    )  # TF32 products

"""The GPU backend: its meaning on the CPU, its kernels where there is a GPU."""

import pytest
import torch

from methods import registry
from methods.sparse_attention import ops_gpu
from methods.sparse_attention.checks import relative_error
from methods.sparse_attention.config import GlobalGroup
from methods.sparse_attention.oracle import global_mask, masked_attention
from methods.sparse_attention.spec import METHOD

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("n", [1, 9, 10, 11, 95, 200])
def test_the_stride_fold_is_attention_to_anchors(n: int) -> None:
    q, k, v = (torch.randn(2, 3, n, 8, dtype=torch.float64, requires_grad=True) for _ in "qkv")
    out = ops_gpu.strided_anchors(q, k, v, GlobalGroup(0, 3, 10))
    wanted = masked_attention(q, k, v, global_mask(n, 10))
    torch.testing.assert_close(out, wanted)
    grad = torch.randn_like(out)
    for a, b in zip(
        torch.autograd.grad(out, [q, k, v], grad),
        torch.autograd.grad(wanted, [q, k, v], grad),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_block_masks_are_kept() -> None:
    first = ops_gpu._block_mask(64, None, 300, "cpu")
    assert ops_gpu._block_mask(64, None, 300, "cpu") is first
    assert ops_gpu._block_mask(65, None, 300, "cpu") is not first


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
    from methods.sparse_attention.config import LocalGroup
    from methods.sparse_attention.ops_cpu import attend_portable

    q, k, v = (torch.randn(1, 4, 3000, 64, device="cuda") for _ in "qkv")
    group = LocalGroup(0, 4, 300)
    tiles = attend_portable(q, k, v, (group,))
    assert relative_error(ops_gpu.sliding_window(q, k, v, group), tiles) < 2e-3  # TF32 products

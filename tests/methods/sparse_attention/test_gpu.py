"""The GPU backend: its meaning on the CPU, its kernels where there is a GPU."""

from typing import Any

import pytest
import torch

from methods import registry
from methods.sparse_attention import flex, portable
from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.checks import relative_error
from methods.sparse_attention.config import LocalGroup, SparseAttentionConfig
from methods.sparse_attention.pattern import Pattern, Scoring, of_groups
from methods.sparse_attention.spec import METHOD

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_groups_take_the_key_heads_that_are_theirs() -> None:
    config = SparseAttentionConfig(4, 2, 20, adaptive_window=False)
    q, (k, v) = torch.randn(1, 6, 90, 16), (torch.randn(1, 3, 90, 16) for _ in "kv")
    found = sparse_attention(q, k, v, config, backend="flex")
    wanted = sparse_attention(q, k, v, config, backend="reference")
    assert relative_error(found, wanted) < 1e-5


def band(n: int, window: int = 9) -> Pattern:
    return of_groups((LocalGroup(0, 1, window),), n, "cpu")


def test_block_masks_are_kept() -> None:
    first = flex.range_mask(band(300).ranges, 0, 300)
    assert flex.range_mask(band(300).ranges, 0, 300) is first
    assert flex.range_mask(band(300, 10).ranges, 0, 300) is not first


@pytest.mark.parametrize("limited", [True, False], ids=["torch 2.12", "torch 2.11"])
def test_the_ninth_shape_is_compiled_too(limited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default dynamo gives up at the ninth, and n x n scores are held without a word."""
    lengths: list[int] = []
    compiling = torch.compile

    def counting(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        lengths.append(n)
        return graph.forward

    def without(model: object, *, fullgraph: bool, dynamic: bool, backend: object) -> object:
        return compiling(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend)  # type: ignore[call-overload]

    dynamo: Any = torch._dynamo.config
    limits = {} if limited else {"recompile_limit": 8, "accumulated_recompile_limit": 9}
    if not limited:  # `compile` took none
        monkeypatch.setattr(torch, "compile", without)
    with dynamo.patch(**limits):
        compiled = flex.compiled_flex(counting)
        for n in range(40, 52):
            q, k, v = (torch.randn(1, 1, n, 16) for _ in "qkv")
            found = compiled(q, k, v, block_mask=flex.range_mask(band(n).ranges, 0, n))
            wanted = flex.attend(q, k, v, band(n), Scoring(0.25))[0]
            assert relative_error(found, wanted) < 1e-5
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
def test_compiled_windows_agree_with_plain_products() -> None:
    q, k, v = (torch.randn(1, 4, 3000, 64, device="cuda") for _ in "qkv")
    read = of_groups((LocalGroup(0, 4, 300),), 3000, "cuda:0")
    plain = portable.forward(q, k, v, read, Scoring(0.125))[0]
    found = flex.attend(q, k, v, read, Scoring(0.125))[0]
    assert relative_error(found, plain) < 2e-3  # TF32 products

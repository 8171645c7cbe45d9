"""Peaks are exact, and what does not fit is refused before it is allocated."""

import pytest
import torch

from methods.errors import NotEnoughMemoryError
from methods.measure import memory

KIB = 1024


def test_the_peak_is_exact_to_the_byte() -> None:
    def two_then_one() -> torch.Tensor:
        first = torch.empty(256 * KIB, dtype=torch.int8)
        second = torch.empty(512 * KIB, dtype=torch.int8)
        del first
        third = torch.empty(64 * KIB, dtype=torch.int8)
        return torch.cat([second[:KIB], third[:KIB]])

    assert memory.peak(two_then_one) == 768 * KIB


def test_what_was_there_before_does_not_count() -> None:
    kept = torch.empty(KIB * KIB, dtype=torch.int8)
    assert memory.peak(lambda: kept.add_(1)) < KIB


def test_naive_attention_holds_its_scores_and_their_softmax() -> None:
    heads, n, d = 2, 256, 16
    q = torch.randn(1, heads, n, d)
    scores = 4 * heads * n * n  # bytes
    assert memory.peak(lambda: (q @ q.mT).softmax(-1) @ q) == 2 * scores
    fused = memory.peak(
        lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    )
    assert fused > q.nbytes  # the scratch inside the operator is seen as well


def test_an_error_inside_goes_through() -> None:
    def wrong() -> None:
        raise ArithmeticError("inside")

    with pytest.raises(ArithmeticError):
        memory.peak(wrong)


def test_what_does_not_fit_is_refused_with_both_numbers() -> None:
    free = memory.available()
    assert 0 < free < 2**50
    memory.require(KIB)
    with pytest.raises(NotEnoughMemoryError, match=r"about 1048576\.0 GiB are needed on cpu, "):
        memory.require(2**50)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_peak_on_the_gpu_is_the_allocators() -> None:
    size = 64 * KIB * KIB

    def two() -> None:
        kept = [torch.empty(size, dtype=torch.int8, device="cuda") for _ in range(2)]
        del kept

    assert memory.peak(two, "cuda") == 2 * size
    assert memory.available("cuda") > size

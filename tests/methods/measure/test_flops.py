"""Operations are counted as 2 a multiply-add."""

import torch

from methods.measure import flops


def test_a_product_counts_two_a_multiply_add() -> None:
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert flops.count(lambda: a @ b) == 2 * 3 * 5 * 7
    assert flops.count(lambda: a + 1) == 0


def test_nothing_is_computed_on_the_meta_device() -> None:
    a = torch.empty(2**20, 2**20, device="meta")
    assert flops.count(lambda: a @ a) == 2 * 2**60


def test_the_backward_pass_counts_when_it_is_run() -> None:
    a, b = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    assert flops.count(lambda: (a @ b).sum().backward()) == 3 * 2 * 4**3

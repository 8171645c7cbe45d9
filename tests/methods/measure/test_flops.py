"""Operations are counted as 2 a multiply-add."""

import pytest
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


class RotaryEmbedding(torch.nn.Module):
    """The angles of positions as transformers 5.0 to 5.15 has them: a product of matrices."""

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        return torch.ones(1, 4, 1) @ positions


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rotary_emb, self.words = RotaryEmbedding(), torch.nn.Linear(4, 3, bias=False)

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.words(self.rotary_emb(positions).mT))


@pytest.mark.parametrize("inside", [True, False])
def test_the_angles_of_positions_count_nothing_however_they_are_made(inside: bool) -> None:
    """As a part of a model, and called by itself, as loops of our own do."""
    model, positions = Model(), torch.arange(22.0)[None, None]

    def alone() -> torch.Tensor:
        return torch.as_tensor(model.words(model.rotary_emb(positions).mT))

    assert flops.count(lambda: model(positions) if inside else alone()) == 2 * 22 * 4 * 3

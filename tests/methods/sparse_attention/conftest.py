"""Every test draws the same numbers, whichever ran before it."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_seed() -> None:
    torch.manual_seed(0)

"""The parts of the table of checks."""

import torch
from torch import nn

from methods.concept_lm import base


def test_norms_of_qwen_round_to_single_precision():
    """Why the exact rows of the table replace the norm: its input is rounded to fp32."""
    qwen = base.load_base(base.tiny_config(), dtype=torch.float64)
    x = torch.randn(4, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rounded = qwen.model.norm(x)
    base.widen_norms(qwen)
    assert isinstance(qwen.model.norm, nn.Module)
    assert 0 < float((qwen.model.norm(x) - rounded).abs().max()) < 1e-5

"""What the compiler must leave alone is left alone, and the compiler is loaded for nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from methods.kit.compiling import uncompiled


@uncompiled
def is_traced() -> bool:
    return torch.compiler.is_compiling()


@pytest.mark.filterwarnings("error")
def test_it_is_never_compiled() -> None:
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x: (x + 1, is_traced(), torch.compiler.is_compiling()), backend="eager"
    )
    assert compiled(torch.zeros(2))[1:] == (False, True)
    assert is_traced() is False


def test_attention_runs_without_the_compiler() -> None:
    """It is loaded in as many seconds as torch."""
    program = """if True:
        import sys, torch
        from methods.sparse_attention.api import sparse_attention
        from methods.sparse_attention.config import SparseAttentionConfig

        q, k, v = (torch.randn(1, 6, 50, 16, requires_grad=True) for _ in range(3))
        config = SparseAttentionConfig(4, 2, 40, adaptive_window=False)
        sparse_attention(q, k, v, config).sum().backward()
        sys.exit("torch._dynamo" in sys.modules)
    """
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0

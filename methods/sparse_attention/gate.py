"""What a benchmark must pass before it measures: right at the very shapes that it measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from methods.kit.compare import relative
from methods.kit.seeds import generator, randn
from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.checks import BOUNDS, Inputs
from methods.sparse_attention.config import SparseAttentionConfig
from methods.sparse_attention.oracle import oracle_attention
from methods.spec import Case


def gate(
    configs: Mapping[str, SparseAttentionConfig],
    *shape: int,
    device: str,
    dtype: torch.dtype = torch.float32,
) -> Iterator[Case]:
    """Every configuration on random inputs of (batch, n, d_head), with gradients."""
    batch, n, d_head = shape
    for name, config in configs.items():
        q, k, v, grad = (
            randn(batch, config.heads, n, d_head, seed=i, device=device, dtype=dtype)
            for i in range(4)
        )
        for case in at_shape(q, k, v, grad, config):
            yield replace(case, label=f"{name}, {case.label}")


def at_shape(
    q: Tensor, k: Tensor, v: Tensor, grad: Tensor | None, config: SparseAttentionConfig
) -> Iterator[Case]:
    r"""What is timed is right at the very shape and batch that it is timed at, on sampled rows R.

    Equation: $\lVert \hat o_R - o_R \rVert_2 \le \varepsilon \lVert o_R \rVert_2$

    q, k, v and `grad` are (batch, heads, n, d); o is the definition's output, or a gradient. The
    gradient of the output is 0 but for those rows: then they alone make up dK and dV, and the
    definition gives every key's in time. `grad` None checks the output alone. That nothing looks
    into the future is exact: the outputs before t are the same bits whatever follows.
    """
    n, bound = q.shape[2], BOUNDS[q.dtype]
    even = torch.linspace(0, n - 1, min(n, 48)).long().tolist()
    drawn = torch.randint(n, (16,), generator=generator(n)).tolist()
    rows = torch.tensor(sorted({*even, *drawn}))
    inputs = Inputs(q, k, v).leaves(trained=grad is not None)
    exact = Inputs(q, k, v).each(torch.Tensor.double).leaves(trained=grad is not None)
    at = rows.to(q.device)
    with torch.set_grad_enabled(grad is not None):
        out = sparse_attention(*inputs, config)
        wanted = oracle_attention(*exact, config, rows=rows)
    yield Case(relative(out[:, :, at], wanted), bound, label=f"n = {n}, output")
    yield Case(_change(inputs, out, config), 0.0, label=f"n = {n}, the future")
    if grad is None:
        return
    upstream = torch.zeros_like(grad)
    upstream[:, :, at] = grad[:, :, at]
    found = torch.autograd.grad(out, inputs, upstream)
    wanted_gradients = torch.autograd.grad(wanted, exact, grad[:, :, at].double())
    for name, a, b in zip(("dQ", "dK", "dV"), found, wanted_gradients, strict=True):
        yield Case(relative(a, b), bound, label=f"n = {n}, {name}")


@torch.no_grad()
def _change(inputs: Inputs, out: Tensor, config: SparseAttentionConfig) -> float:
    """How far the outputs before t move when everything from t on is another."""
    t = out.shape[2] * 2 // 3
    changed = inputs.each(torch.clone)
    for x in changed:
        x[:, :, t:] *= -3
    return float((sparse_attention(*changed, config) - out)[:, :, :t].abs().amax()) if t else 0.0

"""The compiled CPU kernel (`kernel.cpp`): every head and tile of a call in one parallel region.

`build_kernel` builds it. Without it `ops_cpu` runs each tile in PyTorch's kernel, and chosen blocks
are gathered (`gathered`).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .build_kernel import place
from .config import GlobalGroup, Group

MULTIPLE = 16  # of d_head: two vectors; other sizes are padded with zeros where that is worth it


@lru_cache(maxsize=1)
def loaded() -> bool:
    """Whether this process has the kernel; it never builds it."""
    try:
        torch.ops.load_library(place())  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError):  # not built, or for libraries that have been removed since
        return False
    return True


def fits(q: Tensor) -> bool:
    """Whether the kernel can attend from these queries (batch, heads, n, d)."""
    simple = q.device.type == "cpu" and q.dtype == torch.float32 and q.shape[-1] % MULTIPLE == 0
    return simple and loaded()


class Scoring(NamedTuple):
    """How scores are made of products: times `scale`, then `cap` tanh(s / cap) unless cap is 0."""

    scale: float
    cap: float = 0.0


class Chosen(NamedTuple):
    """Blocks of keys that runs of queries read, beside the range of each query.

    `blocks` is (batch or 1, heads that choose, query blocks, most) int32, ascending, negative where
    there is none; block c of sample b holds the keys `origins[b] + c * key_block` and following.
    """

    blocks: Tensor
    query_block: int
    key_block: int
    origins: Tensor | None = None  # (batch,) int32


def forward(
    q: Tensor,
    k: Sequence[Tensor],
    v: Sequence[Tensor],
    ranges: Sequence[Tensor],
    *,
    out: Tensor,
    lse: Tensor,
    scoring: Scoring,
    chosen: Chosen | None = None,
    sinks: Tensor | None = None,
) -> None:
    r"""Fill `out` (batch, heads, n, d) and `lse` (batch, heads, n) of queries like `out`.

    Equation: $o_i = \frac{\sum_j e^{s_{ij}} v_j}{e^{z} + \sum_j e^{s_{ij}}}, \quad
    L_i = \log ( e^z + \sum_j e^{s_{ij}} )$

    k, v (batch, kv_heads, n_k, d) and ranges (batch or 1, 2, n) int32 have an item for each group
    of heads; j runs over `ranges[0] <= j < ranges[1]` and, where blocks are chosen, within these.
    z is the head's sink (`sinks`, (heads,) float32), or -inf.
    """
    given = q, list(k), list(v), list(ranges), *_options(chosen, sinks), *scoring
    torch.ops.assay_sparse_attention.forward(*given, out, lse)


def backward(
    q: Tensor,
    k: Sequence[Tensor],
    v: Sequence[Tensor],
    ranges: Sequence[Tensor],
    *,
    saved: tuple[Tensor, Tensor],
    grad: Tensor,
    into: tuple[Tensor, Sequence[Tensor], Sequence[Tensor]],
    scoring: Scoring,
    chosen: Chosen | None = None,
    sinks: Tensor | None = None,
) -> None:
    """Fill dQ (batch, heads, n, d) and add to dK, dV (`into`), given what `forward` filled."""
    dq, dk, dv = into
    given = q, list(k), list(v), list(ranges), *_options(chosen, sinks), *scoring
    torch.ops.assay_sparse_attention.backward(*given, *saved, grad, dq, list(dk), list(dv))


def _options(
    chosen: Chosen | None, sinks: Tensor | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None, int, int]:
    if chosen is None:
        return None, None, sinks, 1, 1
    return chosen.blocks, chosen.origins, sinks, chosen.query_block, chosen.key_block


def padded(x: Tensor) -> Tensor:
    r"""(batch, heads, n, d) in float32, d filled up with zeros to what the kernel takes.

    Equation: $y_t = x_t \;\mathrm{for}\; t < d, \quad 0 \;\mathrm{beyond}$
    """
    x = x.float() if x.stride(-1) == 1 else x.float().contiguous()
    rest = -x.shape[-1] % MULTIPLE
    return F.pad(x, (0, rest)) if rest else x


@lru_cache(maxsize=32)
def ranges(group: Group, n: int) -> Tensor:
    r"""The keys that each query sees, (1, 2, n) int32: the first, and one past the last.

    Equation: $a_i = \max(0, (\lfloor i / b \rfloor - \lceil w / b \rceil + 1) b), \quad e_i = i + 1
    \;\mathrm{in\ a\ local\ group}$
    Equation: $a_i = 0, \quad e_i = \lfloor i / s \rfloor + 1 \;\mathrm{of\ the\ anchors\ in\ a\
    global\ one}$
    """
    i = torch.arange(n, device="cpu")  # cached, so independent of the default device
    if isinstance(group, GlobalGroup):
        return torch.stack([torch.zeros_like(i), i // group.stride + 1]).int()[None]
    first = (i // group.block - math.ceil(group.window / group.block) + 1) * group.block
    return torch.stack([first.clamp(min=0), i + 1]).int()[None]

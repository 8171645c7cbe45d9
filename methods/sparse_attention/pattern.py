"""The pattern of keys that queries read, as every implementation of the operator takes it.

A head's keys are every `stride`-th token, and a query reads one range of them: for a window the
last few of all tokens, for anchors all so far of every s-th token. Within its range it may read
chosen blocks alone (`selectors`). `kernel`, `portable`, `triton_kernels` and `flex` compute
attention for such a pattern.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import NamedTuple, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from .config import GlobalGroup, Group

P = ParamSpec("P")
T = TypeVar("T")


class Pattern(NamedTuple):
    """The keys of each query. Heads fall into groups, `heads` of them one after another."""

    ranges: Tensor  # (batch or 1, groups, 2, n_q) int32: the first key, and one past the last
    heads: tuple[int, ...]  # query heads of each group
    strides: tuple[int, ...]  # tokens between two keys of each group
    # Of one group with stride 1: (batch or 1, heads that choose, query blocks, most) int32,
    # ascending, negative where there is none; block c of sample b holds the keys
    # origins[b] + c * key_block and following.
    blocks: Tensor | None = None
    origins: Tensor | None = None  # (batch,) int32
    query_block: int = 1
    key_block: int = 1

    def parts(self, kv_heads: int) -> list[tuple[slice, slice, int]]:
        """Query heads, key heads and stride of each group."""
        sharing, first, parts = sum(self.heads) // kv_heads, 0, []
        for heads, stride in zip(self.heads, self.strides, strict=True):
            last = first + heads
            parts.append((slice(first, last), slice(first // sharing, last // sharing), stride))
            first = last
        return parts


class Scoring(NamedTuple):
    """Scores are products times `scale`, then cap tanh(s / cap) unless `cap` is 0.

    `sinks` (heads,) are one more score of each head, of a key without a value.
    """

    scale: float
    cap: float = 0.0
    sinks: Tensor | None = None


def remembered(function: Callable[P, T]) -> Callable[P, T]:
    """Keep the last results for the next step or layer; `torch.compile` sees the function."""
    cached = lru_cache(maxsize=32)(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        result: T = cached(*args, **kwargs)  # type: ignore[arg-type]  # all are hashable
        return result

    return call


@remembered
def of_groups(groups: tuple[Group, ...], n: int, device: str) -> Pattern:
    r"""Windows and anchors over n tokens.

    Equation: $a_i = \max(0, i - w + 1), \quad e_i = i + 1 \;\mathrm{in\ a\ local\ group}$
    Equation: $a_i = 0, \quad e_i = \lfloor i / s \rfloor + 1 \;\mathrm{of\ the\ anchors\ in\ a\
    global\ one}$
    """
    ranges = []
    with torch.inference_mode(False):  # it is kept, and autograd refuses what that mode makes
        i = torch.arange(n, device=device)
        for group in groups:
            if isinstance(group, GlobalGroup):
                ranges.append(torch.stack([torch.zeros_like(i), i // group.stride + 1]))
            else:
                ranges.append(torch.stack([(i - group.window + 1).clamp(min=0), i + 1]))
        strides = tuple(g.stride if isinstance(g, GlobalGroup) else 1 for g in groups)
        heads = tuple(g.stop - g.start for g in groups)
        return Pattern(torch.stack(ranges).int()[None], heads, strides)


@remembered
def reach(
    n_q: int, n_k: int, *, offset: int, window: int | None, causal: bool, device: str
) -> Tensor:
    r"""The keys before and, unless causal, behind each query, (1, 1, 2, n_q) int32.

    Equation: $a_i = \max(0, p_i - w + 1), \quad e_i = p_i + 1, \quad p_i = \mathrm{offset} + i$
    """
    with torch.inference_mode(False):
        p = torch.arange(n_q, device=device) + offset
        first = torch.zeros_like(p) if window is None else (p - window + 1).clamp(0, n_k)
        end = (p + 1).clamp(0, n_k) if causal else torch.full_like(p, n_k)
        return torch.stack([first, end]).int()[None, None]


def ordered(blocks: Tensor) -> Tensor:
    r"""Lists of blocks (..., most), ascending, int32, each block once: a repeated one is -1.

    Equation: $c_1 \le c_2 \le \ldots$
    """
    if not blocks.shape[-1]:
        return blocks.new_full((*blocks.shape[:-1], 1), -1, dtype=torch.int32)
    ascending = blocks.int().sort(-1).values
    repeated = F.pad(ascending[..., 1:] == ascending[..., :-1], (1, 0))
    return ascending.masked_fill(repeated, -1)

"""Configuration of grouped-head sparse attention: heads, windows and anchors. Free of torch.

Two thirds of the heads look at a causal sliding window, one third at uniformly spaced anchors:

    local head    query i attends key j  <=>  j <= i  and  i - j < w
    global head   query i attends key j  <=>  j <= i  and  j % s == 0,   s = round(1 / ratio)

Names and defaults of `SparseAttentionConfig` are the source's.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from ..errors import InputError
from ..kit.config import PositiveShare, configuration

ModelSize = Literal["small", "medium", "large"]


@configuration
class SparseAttentionConfig:
    """Numbers of heads, their windows and their anchors.

    The first seven fields are the source's. It also names several windows at once:
    with `window_sizes` the local heads fall into equal runs, one for each window, and `window_size`
    and `adaptive_window` are not used.

    Raises:
        InputError: for values out of range, no heads, or windows that do not split the heads.
    """

    local_heads: NonNegativeInt = 8
    global_heads: NonNegativeInt = 4
    window_size: PositiveInt = 128
    global_token_ratio: PositiveShare = 0.1
    adaptive_window: bool = True
    min_window_size: PositiveInt = 32
    max_window_size: PositiveInt = 512
    window_sizes: tuple[PositiveInt, ...] = ()

    def __post_init__(self) -> None:
        if self.heads == 0:
            raise ValueError("local_heads + global_heads must be at least 1")
        least, most = self.min_window_size, self.max_window_size
        if least > most:
            raise ValueError(f"min_window_size ({least}) exceeds max_window_size ({most})")
        runs = len(self.window_sizes)
        if runs and self.local_heads % runs:
            raise ValueError(f"{runs} window_sizes do not split {self.local_heads} local_heads")

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.local_heads + self.global_heads

    @property
    def stride(self) -> int:
        """Distance s between anchors. It never depends on the length, or decoding would differ."""
        return round(1.0 / self.global_token_ratio)


@dataclass(frozen=True)
class LocalGroup:
    """A run of heads `[start, stop)` that attend to one sliding window."""

    start: int
    stop: int
    window: int

    def pairs(self, n: int) -> int:
        """Query-key pairs that one head attends over n tokens: sum of min(i + 1, w)."""
        w = min(self.window, n)
        return w * n - w * (w - 1) // 2


@dataclass(frozen=True)
class GlobalGroup:
    """A run of heads `[start, stop)` that attend to every `stride`-th token."""

    start: int
    stop: int
    stride: int

    def anchors(self, n: int) -> int:
        """Number of anchors among n tokens; token 0 is the first, so there is one if n > 0."""
        return -(-n // self.stride)

    def pairs(self, n: int) -> int:
        """Query-key pairs that one head attends over n tokens: sum of floor(i / s) + 1."""
        full, rest = divmod(n, self.stride)
        return self.stride * full * (full + 1) // 2 + rest * (full + 1)


Group = LocalGroup | GlobalGroup


def resolve_window(config: SparseAttentionConfig, context: int) -> int:
    r"""The window in keys, self included, for a context of this many tokens.

    Adaptive: w = clamp(int(b * sqrt(n / b)), min, max) with b = `window_size`; at most n either
    way. Resolve it **once**, from the configured context: a window that grows with the sequence
    changes what earlier tokens have already seen.

    Equation: $w = \min(n, \max(w_{min}, \min(w_{max}, \lfloor b \sqrt{n / b} \rfloor)))$

    Raises:
        InputError: if `context` is below 1.
    """
    if context < 1:
        raise InputError(f"context must be at least 1 token, not {context}")
    window = config.window_size
    if config.adaptive_window:
        window = int(window * math.sqrt(context / window))
        window = max(config.min_window_size, min(window, config.max_window_size))
    return min(window, context)


def head_groups(
    config: SparseAttentionConfig, heads: int, context: int, kv_heads: int | None = None
) -> tuple[Group, ...]:
    """Split a model's heads into runs that attend alike: the local ones first, then the global.

    Raises:
        InputError: if the configuration's heads do not add up to the model's, or a split would
            cut through a group of query heads that share one key-value head.
    """
    if config.heads != heads:
        raise InputError(
            f"local_heads ({config.local_heads}) + global_heads ({config.global_heads}) = "
            f"{config.heads}, but the model has {heads} heads"
        )
    kv_heads = heads if kv_heads is None else kv_heads
    if kv_heads < 1 or heads % kv_heads:
        raise InputError(f"{heads} query heads cannot share {kv_heads} key-value heads evenly")
    groups, sharing = tuple(_groups(config, context)), heads // kv_heads
    for group in groups:
        if group.start % sharing:
            raise InputError(
                f"the split at head {group.start} cuts a key-value head that {sharing} query "
                f"heads share; make it a multiple of {sharing}"
            )
    return groups


def _groups(config: SparseAttentionConfig, context: int) -> Iterator[Group]:
    adaptive = resolve_window(config, context)  # refuses a context without a token
    windows = [min(window, context) for window in config.window_sizes] or [adaptive]
    if config.local_heads:
        run = config.local_heads // len(windows)
        for g, window in enumerate(windows):
            yield LocalGroup(g * run, (g + 1) * run, window)
    if config.global_heads:
        yield GlobalGroup(config.local_heads, config.heads, config.stride)


def attended_pairs(config: SparseAttentionConfig, n: int, context: int | None = None) -> int:
    """Query-key pairs of all heads over n tokens, in closed form."""
    groups = head_groups(config, config.heads, n if context is None else context)
    return sum((g.stop - g.start) * g.pairs(n) for g in groups)


def sparsity_ratio(config: SparseAttentionConfig, n: int, context: int | None = None) -> float:
    """Share of the n * n query-key pairs left out, averaged over heads, in closed form.

    Counted as the source counts it, against *all* n * n pairs; a causal dense head already
    leaves out (n - 1) / 2n of them.
    """
    return 1.0 - attended_pairs(config, n, context) / (config.heads * n * n)


def flop_limit(config: SparseAttentionConfig, n: int) -> float:
    r"""Causal dense pairs over attended pairs: the most that any implementation can gain.

    Equation: $\frac{\sum_{heads} n (n + 1) / 2}{\sum_{heads} pairs}$
    """
    return config.heads * (n * (n + 1) // 2) / attended_pairs(config, n)


# Local heads, global heads, window.
_BY_SIZE = {"small": (4, 2, 128), "medium": (8, 4, 256), "large": (12, 4, 512)}
_BY_LENGTH = ((511, (4, 2, 64)), (2048, (8, 4, 128)), (math.inf, (12, 4, 256)))


def get_recommended_config(
    context: int, *, heads: int = 12, size: ModelSize | None = None, kv_heads: int | None = None
) -> SparseAttentionConfig:
    """The source's recommendation for a context length or a model size, made to fit `heads`.

    By length: under 512 tokens window 64 and heads 4 : 2; to 2048, 128 and 8 : 4; above, 256 and
    12 : 4. By size: small 4 : 2, medium 8 : 4, large 12 : 4 with windows of at most 128 / 256 /
    512 and a quarter of the context. The source gives head *counts* that add up to 6, 12 or 16;
    we keep their proportion and scale it to the model's own heads, in whole groups of those that
    share one of `kv_heads` key-value heads; with one such head all attend locally.

    Raises:
        InputError: if there are fewer than 2 heads, `context` is below 1, `size` is unknown, or
            the heads cannot share `kv_heads` evenly.
    """
    if heads < 2:
        raise InputError(f"heads must be at least 2 to form two groups, not {heads}")
    if context < 1:
        raise InputError(f"context must be at least 1 token, not {context}")
    if size is None:
        local, global_, window = next(row for most, row in _BY_LENGTH if context <= most)
    elif size in _BY_SIZE:
        local, global_, largest = _BY_SIZE[size]
        window = max(1, min(largest, context // 4))
    else:
        raise InputError(f"size must be one of {', '.join(_BY_SIZE)}, not {size!r}")
    shared = heads if kv_heads is None else kv_heads
    if shared < 1 or heads % shared:
        raise InputError(f"{heads} query heads cannot share {shared} key-value heads evenly")
    groups = 0 if shared == 1 else max(1, round(shared * global_ / (local + global_)))
    scaled = groups * (heads // shared)
    least = min(SparseAttentionConfig.min_window_size, window)  # none exceeds the largest
    return SparseAttentionConfig(heads - scaled, scaled, window, min_window_size=least)

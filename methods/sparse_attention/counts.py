"""The source's numbers, recomputed by counting the query-key pairs of its own definition."""

import math
from collections.abc import Sequence
from functools import partial
from statistics import linear_regression

from ..spec import Count
from . import config

_CONFIG = config.SparseAttentionConfig()
_LENGTHS = tuple(2**k for k in range(16, 23))


def exponent(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """The growth of a cost: the slope of its logarithm over that of the length, least squares."""
    logs = [[math.log(value) for value in values] for values in (lengths, costs)]
    return linear_regression(*logs).slope


def complexity() -> Count:
    """Growth of the pairs with the length."""
    fitted = exponent(_LENGTHS, [config.attended_pairs(_CONFIG, n) for n in _LENGTHS])
    return Count(
        low=fitted,
        high=fitted,
        without=2.0,
        working=f"pairs grow as n^{fitted:.2f} between {_LENGTHS[0]:,} and {_LENGTHS[-1]:,} tokens "
        f"(dense: n^2), for a global head sees every {_CONFIG.stride}th token, n^2 / "
        f"{2 * _CONFIG.stride} pairs",
    )


def operations(n: int) -> Count:
    """Dense n x n pairs, as the source counts, over attended pairs, averaged over the heads."""
    times = n * n * _CONFIG.heads / config.attended_pairs(_CONFIG, n)
    causal = config.flop_limit(_CONFIG, n)
    return Count(
        low=times,
        high=times,
        without=1.0,
        working=f"{times:.2f} times fewer than the n x n pairs that the source counts, with the "
        f"window of {config.resolve_window(_CONFIG, n)} that the default adapts to; against "
        f"causal dense attention {causal:.2f}",
    )


operations_512, operations_1024, operations_2048, operations_4096 = (
    partial(operations, n) for n in (512, 1024, 2048, 4096)
)


def sparsity() -> Count:
    """The share of the n x n pairs left out, from the shortest to the longest length."""
    lengths = (128, 256, 512, 1024)
    shares = [config.sparsity_ratio(_CONFIG, n) for n in lengths]
    longer = config.sparsity_ratio(_CONFIG, 2048)
    listed = ", ".join(f"{share:.3f}" for share in shares)
    return Count(
        low=min(shares),
        high=max(shares),
        working=f"{listed} at {', '.join(map(str, lengths))} tokens and {longer:.3f} at 2048, of "
        "n x n pairs as the source counts; a causal dense head already leaves out nearly 0.5",
    )


def memory() -> Count:
    """Memory that attention keeps for the backward pass, against fused dense attention.

    Both keep queries, keys, values, outputs and one logsumexp for each row: the ratio is 1.
    """
    caches = ", ".join(f"{_cache_saving(n):.1f} times at {n:,}" for n in (1024, 16_384))
    return Count(
        low=1.0,
        high=1.0,
        without=1.0,
        working="1.0 times less than fused dense attention, which never stores the n x n scores; "
        f"the key-value cache does shrink, {caches} tokens",
    )


def _cache_saving(n: int) -> float:
    """Keys that all heads hold while decoding, dense over sparse: the window, or the anchors."""
    entries = sum(
        (g.stop - g.start) * (g.anchors(n) if isinstance(g, config.GlobalGroup) else g.window)
        for g in config.head_groups(_CONFIG, _CONFIG.heads, n)
    )
    return _CONFIG.heads * n / entries

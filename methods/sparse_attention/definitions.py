"""Each selector by its paper's equation in loops, for `checks.definitions`.

Every function returns the set of blocks that each query (or block of queries) of the first sample's
key head `g` reads. Heads that share a key head choose by the mean of their queries.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

Choice = list[set[int]]


def _best(scores: dict[int, float], count: int) -> set[int]:
    return set(sorted(scores, key=lambda c: -scores[c])[:count])


def _fewest(shares: dict[int, float], p: float) -> list[int]:
    """Return the fewest blocks that hold a share p, the largest first."""
    chosen, total = [], 0.0
    for c in sorted(shares, key=lambda c: -shares[c]):
        if total >= p:
            break
        chosen.append(c)
        total += shares[c]
    return chosen


def _each(s: Any, q: Tensor, choose: Callable[[int, Tensor, Iterable[int]], set[int]]) -> Choice:
    """Let every query choose among the complete blocks after the sinks and before its own."""
    rows = []
    for i in range(q.shape[1]):
        own = i // s.key_block
        always = {c for c in range(own + 1) if c < s.sinks or c == own}
        rows.append(always | choose(i, q[:, i], range(s.sinks, own)))
    return rows


def _block(x: Tensor, c: int, size: int) -> Tensor:
    return x[c * size : (c + 1) * size]


def window_sinks(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the first blocks and the last `window` ones."""
    own = [i // s.key_block for i in range(len(k))]
    return [{c for c in range(block + 1) if block - c < s.window or c < s.sinks} for block in own]


def strided(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the last `window` blocks and every `stride`-th."""
    own = [i // s.key_block for i in range(len(k))]
    return [
        {c for c in range(block + 1) if block - c < s.window or c % s.stride == 0} for block in own
    ]


def mean_pooled(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the `top` blocks with the largest product of query and mean key."""

    def choose(i: int, heads: Tensor, past: Iterable[int]) -> set[int]:
        query = heads.mean(0)
        return _best({c: float(query @ _block(k, c, s.key_block).mean(0)) for c in past}, s.top)

    return _each(s, q, choose)


def page_bounds(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the `top` pages with the largest bound of any key's score."""

    def choose(i: int, heads: Tensor, past: Iterable[int]) -> set[int]:
        scores = {}
        for c in past:
            page = _block(k, c, s.key_block)
            least, most = page.amin(0), page.amax(0)
            scores[c] = sum(float(torch.maximum(x * least, x * most).sum()) for x in heads)
        return _best(scores, s.top)

    return _each(s, q, choose)


def top_p(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the fewest blocks with a share p of the softmax of their means."""

    def choose(i: int, heads: Tensor, past: Iterable[int]) -> set[int]:
        query, size = heads.mean(0), s.key_block
        weights = {c: float(query @ _block(k, c, size).mean(0)) / len(query) ** 0.5 for c in past}
        total = sum(map(math.exp, weights.values()))
        return set(_fewest({c: math.exp(w) / total for c, w in weights.items()}, s.p)[: s.most])

    return _each(s, q, choose)


def exact(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the `top` blocks with the largest product of the query and one of their keys."""

    def choose(i: int, heads: Tensor, past: Iterable[int]) -> set[int]:
        query = heads.mean(0)
        return _best({c: float((_block(k, c, s.key_block) @ query).max()) for c in past}, s.top)

    return _each(s, q, choose)


def antidiagonal(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the fewest blocks by sums of scores along the antidiagonals of tiles."""
    query, stride, tiles = q.mean(0), s.stride, len(k) // s.stride
    scores = torch.full((tiles, tiles), -math.inf, dtype=q.dtype)
    for a, b in itertools.product(range(tiles), repeat=2):
        if b <= a:
            pairs = ((stride * a + r, stride * b + stride - 1 - r) for r in range(stride))
            scores[a, b] = sum(query[i] @ k[j] for i, j in pairs)
    shares = torch.softmax(scores / (stride * q.shape[2] ** 0.5), 1)
    each = s.block // stride
    shares = torch.unflatten(torch.unflatten(shares, 1, (-1, each)), 0, (-1, each))
    rows = shares.sum((1, 3))
    rows = rows / rows.sum(1, keepdim=True)
    chosen = (_fewest(dict(enumerate(row.tolist())), s.p) for row in rows)
    return [{block} | {c for c in picked if c <= block} for block, picked in enumerate(chosen)]


def vertical_slash(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the best columns and diagonals of the last queries' attention, in blocks."""
    n, blocks = len(k), -(-len(k) // s.block)
    columns, diagonals = dict.fromkeys(range(blocks), 0.0), dict.fromkeys(range(blocks), 0.0)
    for i in range(n - s.last, n):
        weights = torch.softmax(k[: i + 1] @ q[:, i].mean(0) / q.shape[2] ** 0.5, 0).tolist()
        for j, weight in enumerate(weights):
            columns[j // s.block] += weight
            diagonals[(i - j) // s.block] += weight
    vertical, slash = _best(columns, s.vertical), _best(diagonals, s.slash)
    rows = []
    for block in range(blocks):
        # Keys at a distance of slash blocks and less than one more lie in two blocks.
        reads = {block} | vertical | {block - d for d in slash} | {block - d - 1 for d in slash}
        rows.append({c for c in reads if 0 <= c <= block})
    return rows


def local_3d(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the tiles around each tile; at an edge the window is moved inside."""
    counts = [size // tile for size, tile in zip(s.shape, s.tile, strict=True)]
    tiles = list(itertools.product(*map(range, counts)))
    rows = []
    for tile in tiles:
        centre = [
            min(max(place, w // 2), count - 1 - w // 2)
            for place, w, count in zip(tile, s.window, counts, strict=True)
        ]
        near = (
            all(abs(x - y) <= w // 2 for x, y, w in zip(other, centre, s.window, strict=True))
            for other in tiles
        )
        rows.append({c for c, reads in enumerate(near) if reads})
    return rows


def radial(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read windows that halve whenever the distance in time doubles, and the first frame."""
    each = s.frame // s.block
    rows: Choice = []
    for a in range(s.frames * each):
        reads = set()
        for b in range(s.frames * each):
            time, aside = abs(a // each - b // each), abs(a % each - b % each)
            thinning = 2 ** (max(time, 1).bit_length() - 1)
            again = aside == 0 and time % math.ceil(thinning / each) == 0
            if (aside + 1) * thinning <= each or again or b < each:
                reads.add(b)
        rows.append(reads)
    return rows


def block_top_k(s: Any, q: Tensor, k: Tensor) -> Choice:
    """Read the `top` blocks by products of mean queries and mean keys."""
    blocks, queries = range(-(-len(k) // s.block)), q.mean(0)
    keys = [_block(k, c, s.block).mean(0) for c in blocks]
    means = [_block(queries, c, s.block).mean(0) for c in blocks]
    return [_best({c: float(mean @ keys[c]) for c in blocks}, s.top) for mean in means]

r"""Selectors of key blocks: the choices of published sparse attention, one class each.

A selector takes queries (batch, heads, n_q, d) and all keys (batch, kv_heads, n_k, d) and gives
blocks (batch or 1, heads that choose, ceil(n_q / query_block), most) for `block_sparse_attention`;
-1 is none. The last query stands at the last key. Selectors with `query_block` 1 choose for every
query alone, from blocks that are complete before it: nothing later changes a choice, and a token
decoded with a cache chooses as in the full pass. Heads that share a key head choose together, by
the mean of their queries' scores, so that a key is read once for all of them.

A causal query always reads its own block and the first one (`sinks`): the start of a text takes
much attention whatever is asked (Xiao et al., 2309.17453).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError


class Selector(Protocol):
    """Chooses blocks of keys for blocks of queries."""

    @property
    def query_block(self) -> int:
        """Consecutive queries that read the same blocks."""

    @property
    def key_block(self) -> int:
        """Consecutive keys of a block."""

    @property
    def causal(self) -> bool:
        """True if it chooses for causal attention."""

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none.

        q is (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), of any floating type.
        """


def positions(n_q: int, n_k: int, device: torch.device) -> Tensor:
    r"""Positions (n_q,) of the queries among the keys: the last query at the last key.

    Equation: $p_i = n_k - n_q + i$
    """
    return torch.arange(n_k - n_q, n_k, device=device)


def by_group(x: Tensor, kv_heads: int) -> Tensor:
    r"""(batch, heads, n, d) -> (batch, kv_heads, sharing, n, d).

    Equation: $y_{b g s} = x_{b, g S + s}$
    """
    return torch.unflatten(x, 1, (kv_heads, -1))


def in_blocks(k: Tensor, size: int, fill: float) -> Tensor:
    r"""(batch, kv_heads, n_k, d) -> (batch, kv_heads, blocks, size, d), `fill` beyond n_k.

    Equation: $y_{c r} = x_{c b + r}$
    """
    padded = F.pad(k, (0, 0, 0, -k.shape[2] % size), value=fill)
    return torch.unflatten(padded, 2, (-1, size))


def best_past(scores: Tensor, current: Tensor, top: int, sinks: int = 1) -> Tensor:
    r"""The `top` best of the blocks before each query's own, with the own one and the first ones.

    Equation: $C_i = \mathrm{top}_{c < o_i}\, s_{ic} \cup \{o_i\} \cup \{c < \mathrm{sinks}\}$

    scores are (batch, heads that choose, n_q, blocks), current (n_q,) is the block that each query
    stands in. Returns (batch, heads that choose, n_q, at most top + sinks + 1).
    """
    block = torch.arange(scores.shape[-1], device=scores.device)
    past = block < current[:, None]
    always = (block == current[:, None]) | ((block < sinks) & past)
    ranked = scores.float().masked_fill(~past, -math.inf).masked_fill(always, math.inf)
    best = ranked.topk(min(top + sinks + 1, scores.shape[-1]), dim=-1)
    return best.indices.masked_fill(best.values == -math.inf, -1)


NONE_IS_FINE = {"top", "sinks", "most", "vertical", "slash"}  # options that may be 0


class _Checked:
    """Refuses options out of range."""

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if name == "p" and not value > 0:
                raise InputError(f"p must be above 0, not {value}")
            least = 0 if name in NONE_IS_FINE else 1
            if name not in {"p", "causal"} and not (type(value) is int and value >= least):
                raise InputError(f"{name} must be an integer of at least {least}, not {value!r}")


@dataclass(frozen=True)
class WindowAndSinks(_Checked):
    """StreamingLLM: the first blocks and the last ones before a query (Xiao et al., 2309.17453).

    Equation: C_t = {c < s} ∪ {c : ⌊t / b⌋ - w < c ≤ ⌊t / b⌋} (section 3.2), in whole blocks.
    """

    window: int = 16  # blocks, the own one included
    sinks: int = 1
    key_block: int = 64
    query_block: int = 1
    causal: ClassVar[bool] = True

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none."""
        p = positions(q.shape[2], k.shape[2], q.device)[:: self.query_block]
        # The first query of a query block sees furthest back, the last one furthest on.
        current, last = p // self.key_block, (p + self.query_block - 1) // self.key_block
        reach = -(-(self.query_block - 1) // self.key_block)
        near = current[:, None] + torch.arange(1 - self.window, reach + 1, device=q.device)
        near = near.masked_fill((near > last[:, None]) | (near < 0), -1)
        first = torch.arange(self.sinks, device=q.device).expand(len(p), -1)
        return torch.cat([first, near], dim=1)[None, None]


@dataclass(frozen=True)
class Strided(_Checked):
    """Sparse Transformer's strided pattern in blocks: the last w and every s-th (1904.10509).

    Equation: A_t = {t, t - 1, …, t - l} ∪ {j : (t - j) mod l = 0} (section 4.2); the summary
    positions of its fixed pattern, j mod l = 0, stand in for the second, as their keys can be kept.
    """

    stride: int = 8  # blocks
    window: int = 8  # blocks, the own one included
    key_block: int = 64
    query_block: int = 1
    causal: ClassVar[bool] = True

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none."""
        near = WindowAndSinks(self.window, 0, self.key_block, self.query_block)(q, k)
        p = positions(q.shape[2], k.shape[2], q.device)[:: self.query_block]
        every = torch.arange(0, -(-k.shape[2] // self.key_block), self.stride, device=q.device)
        past = every.expand(len(p), -1).masked_fill(every > p[:, None] // self.key_block, -1)
        return torch.cat([near[0, 0], past], dim=1)[None, None]


class Summarised(_Checked):
    """Chooses by summaries of complete blocks, which a cache can keep (`hugging_face.SparseCache`).

    Subclasses say what a block's summaries are, and choose by them.
    """

    key_block: int
    query_block: ClassVar[int] = 1
    causal: ClassVar[bool] = True

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none."""
        return self.choose(q, self.summaries(k), k.shape[2])

    def summaries(self, k: Tensor) -> tuple[Tensor, ...]:
        r"""Summarise complete blocks of k (batch, kv_heads, n_k, d): (batch, kv_heads, blocks, d).

        Equation: $f(K_c) \;\mathrm{of}\; K_c = (k_{c b}, \ldots, k_{c b + b - 1})$
        """
        whole = k.shape[2] // self.key_block * self.key_block
        return self.summarise(in_blocks(k[:, :, :whole].float(), self.key_block, 0.0))

    def summarise(self, blocks: Tensor) -> tuple[Tensor, ...]:
        r"""Means of blocks (batch, kv_heads, blocks, size, d): (batch, kv_heads, blocks, d).

        Equation: $\bar k_c = \frac{1}{b} \sum_r k_{c b + r}$
        """
        return (blocks.mean(3),)

    def choose(self, q: Tensor, summaries: tuple[Tensor, ...], n_k: int) -> Tensor:
        r"""The chosen blocks, given the summaries (batch, kv_heads, blocks, d) of n_k keys.

        Equation: $C_i = \mathrm{choice}(q_i, f(K_0), f(K_1), \ldots)$
        """
        raise NotImplementedError

    def current(self, q: Tensor, n_k: int) -> Tensor:
        r"""The block that each query stands in, (n_q,).

        Equation: $o_i = \lfloor p_i / b \rfloor$
        """
        return positions(q.shape[2], n_k, q.device) // self.key_block


def by_means(q: Tensor, means: Tensor, n_k: int, size: int) -> Tensor:
    r"""Products of queries with mean keys, (batch, kv_heads, n_q, blocks of n_k keys).

    Equation: $s_{ic} = \frac{1}{S} \sum_h q_{hi} \cdot \bar k_c$

    A last block that is not complete scores 0: it is nobody's past.
    """
    queries = by_group(q.float(), means.shape[1]).mean(2)
    return _with_unfinished(queries @ means.transpose(-1, -2), n_k, size)


@dataclass(frozen=True)
class MeanPooled(Summarised):
    """MoBA: the blocks whose mean key is nearest to the query (Lu et al., 2502.13189).

    Equation: s_c = ⟨q, mean(K_c)⟩, C = top-k over the past blocks, the own one always
    (equations 5 to 7).
    """

    top: int = 8
    sinks: int = 1
    key_block: int = 64

    def choose(self, q: Tensor, summaries: tuple[Tensor, ...], n_k: int) -> Tensor:
        r"""Choose by means (batch, kv_heads, blocks, d) of the keys.

        Equation: $s_{ic} = q_i \cdot \bar k_c$
        """
        scores = by_means(q, summaries[0], n_k, self.key_block)
        return best_past(scores, self.current(q, n_k), self.top, self.sinks)


@dataclass(frozen=True)
class PageBounds(Summarised):
    """Quest: pages by the largest score that any key in them could have (Tang et al., 2406.10774).

    Equation: s_c = Σ_i max(q_i · m_{c,i}, q_i · M_{c,i}), m and M the minima and maxima of the
    page's keys by channel (algorithm 1).
    """

    top: int = 8
    sinks: int = 1
    key_block: int = 16

    def summarise(self, blocks: Tensor) -> tuple[Tensor, ...]:
        r"""Minima and maxima by channel, (batch, kv_heads, blocks, d) each.

        Equation: $m_c = \min_r k_{c b + r}, \quad M_c = \max_r k_{c b + r}$
        """
        return blocks.amin(3), blocks.amax(3)

    def choose(self, q: Tensor, summaries: tuple[Tensor, ...], n_k: int) -> Tensor:
        r"""Choose by minima and maxima, (batch, kv_heads, blocks, d) each.

        Equation: $s_{ic} = \sum_t \max(q_{it} m_{ct}, q_{it} M_{ct})$
        """
        least, most = summaries
        grouped = by_group(q.float(), most.shape[1])  # (batch, kv_heads, sharing, n_q, d)
        # max(q m, q M) is q M where q > 0 and q m elsewhere: two products of matrices.
        above, below = (part.mean(2) for part in (grouped.clamp(min=0), grouped.clamp(max=0)))
        scores = above @ most.transpose(-1, -2) + below @ least.transpose(-1, -2)
        scores = _with_unfinished(scores, n_k, self.key_block)
        return best_past(scores, self.current(q, n_k), self.top, self.sinks)


def _with_unfinished(scores: Tensor, n_k: int, size: int) -> Tensor:
    return F.pad(scores, (0, -(-n_k // size) - scores.shape[-1]))


@dataclass(frozen=True)
class TopP(Summarised):
    """The fewest blocks that hold a share p of the attention by their means (2502.02770).

    Equation: min |C| with Σ_{c in C} softmax(s)_c ≥ p, s_c = ⟨q, mean(K_c)⟩ √d⁻¹
    (Twilight, section 3.1, with means as the estimate); at most `most` of them.
    """

    p: float = 0.9
    most: int = 32
    sinks: int = 1
    key_block: int = 64

    def choose(self, q: Tensor, summaries: tuple[Tensor, ...], n_k: int) -> Tensor:
        r"""Choose by means (batch, kv_heads, blocks, d) of the keys.

        Equation: $s_{ic} = \frac{q_i \cdot \bar k_c}{\sqrt{d}}$
        """
        scores = by_means(q, summaries[0], n_k, self.key_block) / q.shape[-1] ** 0.5
        return fewest_past(scores, self.current(q, n_k), self.p, self.most, self.sinks)


def fewest_past(scores: Tensor, current: Tensor, p: float, most: int, sinks: int) -> Tensor:
    r"""The fewest blocks before each query's own with a share p of softmax(scores), like best_past.

    Equation: $\min |C_i| \;\mathrm{with}\; \sum_{c \in C_i} \mathrm{softmax}(s_i)_c \ge p$

    The own block and the sinks are read besides, and count for nothing.
    """
    block = torch.arange(scores.shape[-1], device=scores.device)
    past = (block < current[:, None]) & (block >= sinks)
    # Not -inf: the softmax of a query without a past would be NaN.
    shares = torch.softmax(scores.float().masked_fill(~past, -1e9), -1).masked_fill(~past, 0.0)
    best = shares.topk(min(most, scores.shape[-1]), dim=-1)
    before = best.values.cumsum(-1) - best.values  # what the better ones hold already
    chosen = best.indices.masked_fill((before >= p) | (best.values == 0), -1)
    always = best_past(scores, current, 0, sinks)
    return torch.cat([always, chosen], dim=-1)


@dataclass(frozen=True)
class ExactTopK(_Checked):
    """Blocks by the largest of their exact scores, as block-sparse flash attention (2512.07011).

    Equation: s_c = max_{j in c} ⟨q, k_j⟩, C = top-k over the past blocks, the own one always.
    Choosing takes all scores; what is saved are the other blocks' values. It shows what estimates
    of scores lose, too. The repository takes the maximum over a block of queries, and a threshold
    that is calibrated to let k blocks through in the place of the k best.
    """

    top: int = 8
    sinks: int = 1
    key_block: int = 64
    query_block: ClassVar[int] = 1
    causal: ClassVar[bool] = True

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none."""
        queries = by_group(q.float(), k.shape[1]).mean(2)
        scores = queries @ k.float().transpose(-1, -2)  # (batch, kv_heads, n_q, n_k)
        scores = F.pad(scores, (0, -k.shape[2] % self.key_block), value=-math.inf)
        best = torch.unflatten(scores, 3, (-1, self.key_block)).amax(-1)
        current = positions(q.shape[2], k.shape[2], q.device) // self.key_block
        return best_past(best, current, self.top, self.sinks)


class _Square(_Checked):
    """Chooses for whole blocks of queries, as large as blocks of keys."""

    block: int

    @property
    def query_block(self) -> int:
        """Consecutive queries that read the same blocks."""
        return self.block

    key_block = query_block


@dataclass(frozen=True)
class Antidiagonal(_Square):
    """XAttention: blocks by sums along antidiagonals of their scores (Xu et al., 2503.16428).

    Equation: in every block of b x b scores, S = Σ over (i, j) with (i + j) mod s = s - 1; the
    fewest blocks of a row whose softmax(S) adds up to p (algorithm 1). For prompts: the queries of
    a block choose together.
    """

    p: float = 0.9
    stride: int = 8
    block: int = 64
    causal: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block % self.stride:
            raise InputError(f"a block of {self.block} is not made of strides of {self.stride}")

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none."""
        if q.shape[2] != k.shape[2]:
            raise InputError("antidiagonal scores need as many queries as keys: choose for prompts")
        s, size = self.stride, self.block
        # Antidiagonals of an s x s tile meet query r with key s - 1 - r: flipped within the tile,
        # they are the diagonal, so one product over s * d numbers adds them up.
        queries = in_blocks(by_group(q.float(), k.shape[1]).mean(2), s, 0.0).flatten(3)
        keys = in_blocks(k.float(), s, 0.0).flip(3).flatten(3)
        tiles = queries @ keys.transpose(-1, -2) / (s * q.shape[-1] ** 0.5)
        index = torch.arange(tiles.shape[-1], device=q.device)
        if self.causal:
            tiles = tiles.masked_fill(index > index[:, None], -math.inf)
        shares, each = torch.softmax(tiles, -1), size // s
        pad = -shares.shape[-1] % each
        shares = F.pad(shares, (0, pad, 0, pad))
        shares = torch.unflatten(torch.unflatten(shares, 3, (-1, each)), 2, (-1, each))
        return fewest(shares.sum((3, 5)), self.p, causal=self.causal)


def fewest(weights: Tensor, p: float, *, causal: bool) -> Tensor:
    r"""The fewest blocks of (batch, heads, query blocks, key blocks) with a share p of a row.

    Equation: $\min |C_i| \;\mathrm{with}\; \sum_{c \in C_i} w_{ic} \ge p \sum_c w_{ic}$
    """
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
    best = shares.sort(-1, descending=True)
    before = best.values.cumsum(-1) - best.values
    chosen = best.indices.masked_fill(before >= p, -1)
    rows = torch.arange(weights.shape[2], device=weights.device)[:, None]
    if not causal:
        return chosen
    current = rows.expand(*chosen.shape[:-1], 1)
    return torch.cat([current, chosen.masked_fill(chosen > rows, -1)], dim=-1)


@dataclass(frozen=True)
class VerticalSlash(_Square):
    """MInference: keys that all queries read, and distances (Jiang et al., 2407.02490).

    Equation: A = softmax(Q_last K^T / √d) of the last 64 queries; the best columns Σ_i A_ij and the
    best diagonals Σ_i A_{i,i-o} (algorithm 2), here in whole blocks. For prompts; the choice of
    every query looks at the last ones, so a prefix may choose otherwise.
    """

    vertical: int = 8  # blocks
    slash: int = 8  # blocks
    last: int = 64  # queries that are asked
    block: int = 64
    causal: ClassVar[bool] = True

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none."""
        n, size = k.shape[2], self.block
        if q.shape[2] != n:
            raise InputError("vertical lines and slashes need as many queries as keys")
        queries = by_group(q[:, :, -self.last :].float(), k.shape[1]).mean(2)
        place = positions(queries.shape[2], n, q.device)[:, None]
        key = torch.arange(n, device=q.device)
        scores = queries @ k.float().transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = torch.softmax(scores.masked_fill(key > place, -math.inf), -1)
        blocks = -(-n // size)
        columns = weights.new_zeros(*weights.shape[:2], blocks)
        columns.index_add_(2, key // size, weights.sum(2))
        distance = ((place - key).clamp(min=0) // size).expand_as(weights)
        diagonals = torch.zeros_like(columns)
        diagonals.scatter_add_(2, distance.flatten(2), weights.flatten(2))
        vertical = columns.topk(min(self.vertical, blocks)).indices[:, :, None]
        slash = diagonals.topk(min(self.slash, blocks)).indices[:, :, None]
        rows = torch.arange(blocks, device=q.device)[:, None]
        current = rows.expand(*columns.shape[:2], -1, 1)
        reads = [current, vertical.expand(-1, -1, blocks, -1), rows - slash, rows - slash - 1]
        chosen = torch.cat(reads, dim=-1)  # a diagonal of blocks touches two blocks of a row
        return chosen.masked_fill((chosen > rows) | (chosen < 0), -1)


@dataclass(frozen=True)
class Local3d:
    """Sliding tile attention of video: every tile reads the tiles around it (2502.04507).

    Equation: tile u reads tile v where |u_a - v_a| ≤ w_a / 2 along time, height and width (section
    3.2). Tokens must stand tile after tile: `order` sorts a video of frames, rows and columns so.
    """

    shape: tuple[int, int, int]  # frames, rows, columns of tokens
    tile: tuple[int, int, int] = (4, 4, 4)
    window: tuple[int, int, int] = (3, 3, 3)  # tiles along each side, odd
    causal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if any(size % tile for size, tile in zip(self.shape, self.tile, strict=True)):
            raise InputError(f"a video of {self.shape} is not made of whole tiles of {self.tile}")

    @property
    def query_block(self) -> int:
        """A tile's tokens."""
        return math.prod(self.tile)

    key_block = query_block

    def order(self) -> Tensor:
        r"""(frames * rows * columns,) which token stands where, tile after tile.

        Equation: $\mathrm{token}(u, r) = u \circ \mathrm{tile} + r$
        """
        tokens = torch.arange(math.prod(self.shape)).view(self.shape)
        for axis, tile in enumerate(self.tile):
            tokens = torch.unflatten(tokens, 2 * axis, (-1, tile))
        return tokens.permute(0, 2, 4, 1, 3, 5).flatten()

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none."""
        counts = [size // tile for size, tile in zip(self.shape, self.tile, strict=True)]
        axes = [torch.arange(count) for count in counts]
        tiles = torch.cartesian_prod(*axes)  # (tiles, 3)
        half = torch.tensor(self.window) // 2
        # At an edge the window is moved inside, so that all tiles read as many.
        centre = torch.minimum(torch.maximum(tiles, half), torch.tensor(counts) - 1 - half)
        near = ((tiles[None] - centre[:, None]).abs() <= half).all(-1)
        return _listed(near).to(q.device)


@dataclass(frozen=True)
class Radial(_Square):
    """Radial attention of video: what is seen thins with the distance in time (2506.19852).

    Equation: with g = 2^⌊log2 max(|t - u|, 1)⌋ of frames t and u, block k of s in a frame reads
    block l where |k - l| + 1 ≤ s / g, or where k = l and |t - u| mod ⌈g / s⌉ = 0; the first frame
    is read by all. Not causal; frames stand one after another. This is the paper's mask of tokens,
    taken for blocks; the repository rounds its mask of tokens to blocks, by which a window is one
    block wider on each side.
    """

    frames: int
    frame: int = 256  # tokens of a frame, a multiple of the block
    block: int = 64
    causal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame % self.block:
            raise InputError(f"a frame of {self.frame} is not made of blocks of {self.block}")

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none."""
        each = self.frame // self.block
        place = torch.arange(self.frames * each)
        time, space = place // each, place % each
        apart, aside = (abs(x[:, None] - x) for x in (time, space))
        thinning = 2 ** apart.clamp(min=1).double().log2().floor().long()
        near = (aside + 1) * thinning <= each
        now_and_then = (aside == 0) & (apart % -(-thinning // each) == 0)
        return _listed(near | now_and_then | (time == 0)).to(q.device)


def _listed(read: Tensor) -> Tensor:
    """Lists (1, 1, query blocks, most) of what a mask (query blocks, key blocks) lets them read."""
    best = read.to(torch.int8).topk(int(read.sum(1).max()), dim=1)
    return best.indices.masked_fill(best.values == 0, -1)[None, None]


@dataclass(frozen=True)
class BlockTopK(_Square):
    """Block top-k of video: cubes by the product of mean queries and keys (VSA, 2505.13389).

    Equation: S = Q_c K_c^T / √d of mean-pooled blocks, C = top-k of each row (section 2.2).
    Not causal; with tokens in the order of `Local3d.order` the blocks are cubes.
    """

    top: int = 8
    block: int = 64
    causal: ClassVar[bool] = False

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Blocks (batch or 1, choosing heads, query blocks, most) int64, -1 for none."""
        queries = _means(by_group(q.float(), k.shape[1]).mean(2), self.block)
        scores = queries @ _means(k.float(), self.block).transpose(-1, -2)
        return scores.topk(min(self.top, scores.shape[-1]), dim=-1).indices


def _means(x: Tensor, size: int) -> Tensor:
    """Means of blocks of (batch, heads, n, d), the last one of what there is."""
    sums, n = in_blocks(x, size, 0.0).sum(3), x.shape[2]
    counts = (n - torch.arange(0, n, size, device=x.device)).clamp(max=size)
    return sums / counts[:, None]


# Every selector by the name that reports and settings use.
SELECTORS: dict[str, Any] = {
    "window_sinks": WindowAndSinks,
    "strided": Strided,
    "mean_pooled": MeanPooled,
    "page_bounds": PageBounds,
    "top_p": TopP,
    "exact": ExactTopK,
    "antidiagonal": Antidiagonal,
    "vertical_slash": VerticalSlash,
    "local_3d": Local3d,
    "radial": Radial,
    "block_top_k": BlockTopK,
}


def within(budget: int, n: int) -> dict[str, Selector]:
    """The selectors that choose for every query, reading about `budget` of n keys."""
    blocks, pages = max(3, budget // 64), max(3, budget // 16)
    stride = max(2, -(-2 * n // budget))
    return {
        "window_sinks": WindowAndSinks(window=blocks - 1),
        "strided": Strided(stride=stride, window=max(1, blocks // 2)),
        "mean_pooled": MeanPooled(top=blocks - 2),
        "page_bounds": PageBounds(top=pages - 2),
        "top_p": TopP(most=blocks - 2),
        "exact": ExactTopK(top=blocks - 2),
    }


def as_options(selector: Selector) -> dict[str, Any]:
    """Return the options of `block_sparse_attention` that a selector determines."""
    query_block, key_block = selector.query_block, selector.key_block
    return {"query_block": query_block, "key_block": key_block, "causal": selector.causal}

"""One registry of ways to choose visual tokens: `select(context, k) -> indices` (B, k), rising.

A way that also merges what it does not keep has `enter`, which gives the tokens as well. All work
on what the context holds: before the language model, or on hidden states before one of its layers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from methods.errors import UnknownNameError
from methods.token_pruning.config import PruningError
from methods.token_pruning.llava import Vision
from methods.token_pruning.relax import top


@dataclass(frozen=True)
class Context:
    """What a choice may look at.

    `look` gives `visual` (B, n, d), projected features or hidden states; `patches` (B, n) says
    which patch each comes from; `text` (B, t, d) and `asked` (B, t) bool are the question; `vision`
    is the tower's view of all N patches; `attention` gives (B, n), the last token's attention in
    the layer before, and is None before the first, `ahead` that in the layer that comes; `needed`
    (B, 2) are the patch asked about and the one with the answer, on scenes that know them.
    """

    look: Callable[[], Tensor]
    patches: Tensor
    text: Tensor
    asked: Tensor
    vision: Vision
    attention: Callable[[], Tensor] | None = None
    ahead: Callable[[], Tensor] | None = None
    generator: torch.Generator | None = None
    needed: Tensor | None = None

    @cached_property
    def visual(self) -> Tensor:
        r"""What there is to choose from, computed for those who look at it: (B, n, d).

        Equation: $x_i = \mathrm{projector}(v_i) \;\mathrm{before\ the\ model}, \quad
        x_i = h_{p_i} \;\mathrm{inside}$

        v_i is a patch's features, p_i where visual token i stands among the hidden states h.
        """
        return self.look()

    def noise(self) -> Tensor:
        r"""Uniform noise (B, n) from the run's generator.

        Equation: $u_{bi} \sim U(0, 1)$
        """
        made = torch.rand(self.patches.shape, generator=self.generator)
        return made.to(self.patches.device)


@dataclass(frozen=True)
class Entered:
    """Visual tokens that enter the language model.

    `features` (B, k, d_vision) before the projector; `index` (B, k); `bias` (B, k) on the keys or
    None.
    """

    features: Tensor
    index: Tensor
    bias: Tensor | None = None


Select = Callable[[Context, int], Tensor]
Enter = Callable[[Context, int], Entered]


@dataclass(frozen=True)
class Selector:
    """A named way to choose; `before` and `inside` say where it can stand."""

    name: str
    label: str
    select: Select
    merge: Enter | None = None
    before: bool = True
    inside: bool = True

    def enter(self, context: Context, k: int) -> Entered:
        r"""Choose before the language model, merging where the method merges.

        Equation: $x_{bj} = v_{b, i_{bj}} \;\mathrm{where\ it\ does\ not}$, i (B, k) the choice

        Raises:
            PruningError: for a budget above the tokens.
        """
        _check_budget(k, context.vision.features.shape[1])
        if self.merge is not None:
            return self.merge(context, k)
        index = self.select(context, k)
        return Entered(take(context.vision.features, index), index)


def take(x: Tensor, index: Tensor) -> Tensor:
    r"""Rows of x (B, n, d) at i (B, k): (B, k, d).

    Equation: $y_{bj} = x_{b, i_{bj}}$
    """
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))


def _check_budget(k: int, n: int) -> None:
    if not 1 <= k <= n:
        raise PruningError(f"a budget of {k} tokens; there are {n}, and at least one is kept")


def random(context: Context, k: int) -> Tensor:
    r"""k places by chance: the control for every other way at the same layer.

    Equation: $\mathrm{idx} = \mathrm{sort}(\mathrm{topk}_i\, u_i), \quad u_i \sim U(0, 1)$
    """
    return top(context.noise(), k)


def uniform(context: Context, k: int) -> Tensor:
    r"""k places at equal distances in reading order.

    Equation: $\lfloor (j + 0.5) n / k \rfloor$
    """
    B, n = context.patches.shape
    _check_budget(k, n)
    places = ((torch.arange(k, device=context.patches.device) + 0.5) * n / k).long()
    return places.expand(B, k)


def pooled(context: Context, k: int) -> Entered:
    r"""Average pooling to a grid of k cells, each standing where its middle is.

    Equation: $x_{rc} = \operatorname{mean}_{ij} v_{i S + j}, \quad
    \lfloor \frac{r S}{R} \rfloor \le i < \lceil \frac{(r + 1) S}{R} \rceil, \quad
    \lfloor \frac{c S}{C} \rfloor \le j < \lceil \frac{(c + 1) S}{C} \rceil$

    The image has S x S patches, the grid R x C = k cells.

    Raises:
        PruningError: when k cells make no grid inside the image's.
    """
    features = context.vision.features
    B, n, d = features.shape
    side = round(n**0.5)
    grids = [(r, k // r) for r in range(1, side + 1) if k % r == 0 and k // r <= side]
    if not grids:
        raise PruningError(f"pooling makes a grid inside {side} x {side}; {k} cells make none")
    rows, columns = min(grids, key=lambda grid: abs(grid[0] - grid[1]))
    image = features.mT.reshape(B, d, side, side)
    cells = F.adaptive_avg_pool2d(image, (rows, columns)).flatten(2).mT  # (B, k, d)
    y = ((torch.arange(rows) + 0.5) * side / rows).long()
    x = ((torch.arange(columns) + 0.5) * side / columns).long()
    index = (y[:, None] * side + x).flatten().to(features.device).expand(B, k)
    return Entered(cells, index)


def tome(context: Context, k: int) -> Entered:
    r"""Token merging (Bolya et al., arXiv:2210.09461) on the tower's last features, until k remain.

    Equation: $x_b \gets \frac{s_b x_b + \sum_a s_a x_a}{s_b + \sum_a s_a}, \quad
        b = \arg\max_b \cos(k_a, k_b)$

    In rounds: tokens are dealt alternately into A and B; the r of A most similar by key to one of B
    are averaged into it, weighed by how many patches each stands for; log of that number is added
    to the keys. The paper spreads the rounds over the tower's layers; here they follow it.
    """
    x, keys = context.vision.features, context.vision.keys
    B, n, _ = x.shape
    size = x.new_ones(B, n, 1)
    place = torch.arange(n, device=x.device).expand(B, n)
    while n > k:
        a, b = torch.arange(0, n, 2), torch.arange(1, n, 2)
        r = min(len(a), n - k)
        unit = F.normalize(keys, dim=-1)
        near, to = (unit[:, a] @ unit[:, b].mT).max(dim=-1)  # (B, n_a)
        order = near.argsort(dim=-1, descending=True)
        gone, stay = order[:, :r], order[:, r:].sort(dim=-1).values
        into = to.gather(1, gone)
        parts = []
        for value in (x * size, keys * size, size):
            out = value[:, b].scatter_add(
                1, into[..., None].expand(-1, -1, value.shape[-1]), take(value[:, a], gone)
            )
            parts.append(torch.cat((take(value[:, a], stay), out), 1))
        place = torch.cat((place[:, a].gather(1, stay), place[:, b]), 1)
        order = place.argsort(dim=-1)
        place = place.gather(1, order)
        x, keys, size = (take(part, order) for part in parts)
        x, keys = x / size, keys / size
        n -= r
    return Entered(x, place, size[..., 0].log())


def fastv(context: Context, k: int) -> Tensor:
    r"""The tokens that the last token attends to most (Chen et al., arXiv:2403.06764).

    Equation: $\mathrm{idx} = \mathrm{topk}_i\, \frac{1}{H} \sum_h A_{h, last, i}$

    Raises:
        PruningError: before the first layer, where nothing has attended yet.
    """
    if context.attention is None:
        raise PruningError("FastV reads the attention of the layer before; layer 0 has none")
    return top(context.attention(), k)


CONTEXTUAL = 10 / 64  # VisionZip's share of merged tokens


def visionzip(context: Context, k: int) -> Entered:
    r"""The patches that CLS attends to most, the rest merged (Yang et al., arXiv:2412.04467).

    Equation: $\mathrm{idx} = \mathrm{topk}_i\, \frac{1}{H} \sum_h A_{h, cls, i}$

    Of the rest, anchors at equal distances stay; every other patch is averaged into the anchor that
    is most similar by key.
    """
    vision = context.vision
    B, n, _ = vision.features.shape
    merged = min(round(CONTEXTUAL * k), n - k) if k > 1 else 0
    chosen = top(vision.saliency, k - merged)
    if not merged:
        return Entered(take(vision.features, chosen), chosen)
    left = torch.ones(B, n, dtype=torch.bool, device=chosen.device).scatter(1, chosen, False)
    rest = left.nonzero()[:, 1].view(B, -1)  # (B, n - dominant)
    m = rest.shape[1]
    at = ((torch.arange(merged, device=chosen.device) + 0.5) * m / merged).long()
    keys = F.normalize(take(vision.keys, rest), dim=-1)
    to = (keys @ keys[:, at].mT).argmax(dim=-1)  # (B, m) which anchor
    to[:, at] = torch.arange(merged, device=chosen.device)
    share = F.one_hot(to, merged).to(keys)  # (B, m, merged)
    means = share.mT @ take(vision.features, rest) / share.sum(1)[..., None]
    index = torch.cat((chosen, rest[:, at]), 1)
    order = index.argsort(dim=-1)
    both = torch.cat((take(vision.features, chosen), means), 1)
    return Entered(take(both, order), index.gather(1, order))


def divprune(context: Context, k: int) -> Tensor:
    r"""Greedy max-min cosine distance (Alvar et al., arXiv:2503.02175).

    Equation: $i = \arg\max_{i \notin S} \min_{j \in S} (1 - \cos(v_i, v_j))$

    The first token is the one whose nearest neighbour is farthest, each next one the farthest from
    those chosen.
    """
    unit = F.normalize(context.visual.float(), dim=-1)
    B, n, _ = unit.shape
    _check_budget(k, n)
    distance = 1 - unit @ unit.mT  # (B, n, n)
    alone = distance + 4 * torch.eye(n, device=unit.device)
    chosen = [alone.min(dim=-1).values.argmax(dim=-1)]  # (B,) each
    rows = torch.arange(B, device=unit.device)
    nearest = distance[rows, chosen[0]]  # (B, n)
    for _ in range(k - 1):
        nearest = nearest.scatter(1, chosen[-1][:, None], -torch.inf)
        chosen.append(nearest.argmax(dim=-1))
        nearest = torch.minimum(nearest, distance[rows, chosen[-1]])
    return torch.stack(chosen, 1).sort(dim=-1).values


def relevance(context: Context) -> Tensor:
    r"""Each token's best cosine similarity to a word of the question, scaled to [0, 1]: (B, n).

    Equation: $r_i = \max_w \cos(v_i, t_w), \quad r \gets \frac{r - \min r}{\max r - \min r}$
    """
    similar = (
        F.normalize(context.visual.float(), dim=-1) @ F.normalize(context.text.float(), dim=-1).mT
    )  # (B, n, t)
    best = similar.masked_fill(~context.asked[:, None], -torch.inf).max(dim=-1).values
    low, high = best.min(1, keepdim=True).values, best.max(1, keepdim=True).values
    return (best - low) / (high - low).clamp_min(1e-6)


def cdpruner(context: Context, k: int) -> Tensor:
    r"""Greedy DPP MAP, relevance on both sides (Zhang et al., arXiv:2506.10967).

    Equation: $S = \arg\max_S \det (\mathrm{diag}(r) L\, \mathrm{diag}(r))_S$

    L is cosine similarity; the greedy choice updates a Cholesky factor (Chen et al.,
    arXiv:1709.05135). CDPruner's relevance comes from CLIP's text tower, which a LLaVA does not
    carry; here it is measured between projected features and word embeddings.
    """
    r = relevance(context)
    unit = F.normalize(context.visual.float(), dim=-1)
    B, n, _ = unit.shape
    _check_budget(k, n)
    L = r[:, :, None] * (unit @ unit.mT) * r[:, None]  # (B, n, n)
    rows = torch.arange(B, device=unit.device)
    gain = L.diagonal(dim1=1, dim2=2).clone()  # (B, n)
    factor = L.new_zeros(B, k, n)
    chosen: list[Tensor] = []
    for i in range(k):
        best = gain.argmax(dim=-1)  # (B,)
        root = gain[rows, best].clamp_min(1e-9).sqrt()
        earlier = factor[rows, :i, best]  # (B, i)
        row = (L[rows, best] - (earlier[:, None] @ factor[:, :i])[:, 0]) / root[:, None]
        factor[:, i] = row
        gain = (gain - row**2).clamp_min(0)
        chosen.append(best)
        gain = gain.scatter(1, torch.stack(chosen, 1), -1.0)  # never twice
    return torch.stack(chosen, 1).sort(dim=-1).values


def oracle(context: Context, k: int) -> Tensor:
    r"""The patch with the answer, then the one asked about, then chance: the bound from above.

    Equation: $\mathrm{idx} = \mathrm{sort}(\mathrm{topk}_i (u_i + 2\, [\, p_i = a \,] +
    4\, [\, p_i = b \,])), \quad u_i \sim U(0, 1)$

    p_i is the patch of token i, a the one asked about, b the one with the answer.

    Raises:
        PruningError: where nobody knows what is needed.
    """
    if context.needed is None:
        raise PruningError("the oracle knows drawn scenes only; their `needed` patches are missing")
    first, last = (context.patches == context.needed[:, i, None] for i in (0, 1))
    return top(context.noise() + 2.0 * first + 4.0 * last, k)


def _only(enter: Enter) -> Select:
    return lambda context, k: enter(context, k).index


REGISTRY = {
    selector.name: selector
    for selector in (
        Selector("random", "chance", random),
        Selector("uniform", "every n-th", uniform),
        Selector("pool", "average pooling", _only(pooled), pooled, inside=False),
        Selector("tome", "ToMe", _only(tome), tome, inside=False),
        Selector("fastv", "FastV", fastv, before=False),
        Selector("visionzip", "VisionZip", _only(visionzip), visionzip, inside=False),
        Selector("divprune", "DivPrune", divprune),
        Selector("cdpruner", "CDPruner", cdpruner),
        Selector("oracle", "oracle", oracle),
    )
}


def get(name: str) -> Selector:
    """The selector of a name.

    Raises:
        UnknownNameError: suggesting the nearest.
    """
    if name not in REGISTRY:
        raise UnknownNameError("selector", name, REGISTRY)
    return REGISTRY[name]

"""The selectors that ours is measured against, in one registry: chance, published, oracle."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError
from ..kit.rows import take, wide
from .choice import Context, Selector, top
from .stream import Entered


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
    places = ((torch.arange(k, device=context.patches.device) + 0.5) * n / k).long()
    return places.expand(B, k)


def pooled(context: Context, k: int) -> Entered:
    r"""Average pooling to a grid of k cells, each standing where its middle is.

    Equation: $x_{rc} = \operatorname{mean}_{ij} v_{i S + j}, \quad
    \lfloor \frac{r S}{R} \rfloor \le i < \lceil \frac{(r + 1) S}{R} \rceil, \quad
    \lfloor \frac{c S}{C} \rfloor \le j < \lceil \frac{(c + 1) S}{C} \rceil$

    The image has S x S patches, the grid R x C = k cells.

    Raises:
        InputError: when k cells make no grid inside the image's.
    """
    features = context.vision.features
    B, n, d = features.shape
    side = round(n**0.5)
    grids = [(r, k // r) for r in range(1, side + 1) if k % r == 0 and k // r <= side]
    if not grids:
        raise InputError(f"pooling makes a grid inside {side} x {side}; {k} cells make none")
    rows, columns = min(grids, key=lambda grid: abs(grid[0] - grid[1]))
    image = features.mT.reshape(B, d, side, side)
    cells = F.adaptive_avg_pool2d(image, (rows, columns)).flatten(2).mT  # (B, k, d)
    y = ((torch.arange(rows) + 0.5) * side / rows).long()
    x = ((torch.arange(columns) + 0.5) * side / columns).long()
    index = (y[:, None] * side + x).flatten().to(features.device).expand(B, k)
    return Entered(cells, index)


def match(keys: Tensor, r: int) -> tuple[Tensor, Tensor]:
    r"""ToMe's bipartite matching of keys (B, n, d): r tokens and their partners, (B, r) each.

    Tokens are dealt alternately into two sets; the r of the first most like one of the second go.

    Equation: $b(a) = \arg\max_{b\, \mathrm{odd}} \cos(k_a, k_b), \quad
    \mathrm{gone} = \mathrm{topr}_{a\, \mathrm{even}} \cos(k_a, k_{b(a)})$
    """
    unit = F.normalize(keys, dim=-1)
    near, to = (unit[:, ::2] @ unit[:, 1::2].mT).max(dim=-1)  # (B, even)
    gone = near.topk(r, dim=-1).indices
    return 2 * gone, 2 * to.gather(1, gone) + 1


def merge(x: Tensor, size: Tensor, gone: Tensor, into: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Tokens x (B, n, d) that stand for s (B, n) patches each, r of them averaged into others.

    Equation: $x_b \gets \frac{s_b x_b + \sum_{a \to b} s_a x_a}{s_b + \sum_{a \to b} s_a}, \quad
    s_b \gets s_b + \sum_{a \to b} s_a$

    Returns:
        x (B, n - r, d) and s (B, n - r) of those that stay, in their order, and their places.
    """
    total = x * size[..., None]
    total = total.scatter_add(1, wide(into, total), take(total, gone))
    size = size.scatter_add(1, into, size.gather(1, gone))
    stays = torch.ones_like(size, dtype=torch.bool).scatter(1, gone, False)
    stay = stays.nonzero()[:, 1].view(len(x), -1)  # (B, n - r)
    return take(total / size[..., None], stay), size.gather(1, stay), stay


def tome(context: Context, k: int) -> Entered:
    r"""Token merging (Bolya et al., arXiv:2210.09461) on the tower's last features, until k remain.

    Equation: $x_b \gets \frac{s_b x_b + \sum_a s_a x_a}{s_b + \sum_a s_a}, \quad
        b = \arg\max_b \cos(k_a, k_b)$

    In rounds of `match` and `merge`, weighted by the number of patches that each token stands for;
    the log of that number is added to the keys. The paper spreads the rounds over the tower's
    layers; here they follow the last.
    """
    features, keys = context.vision.features, context.vision.keys
    B, n, d = features.shape
    # Sums and sizes in single precision at least: bfloat16 cannot count beyond 256.
    x = torch.cat((features.to(torch.promote_types(features.dtype, torch.float32)), keys), -1)
    size, places = x.new_ones(B, n), torch.arange(n, device=x.device).expand(B, n)
    while (n := x.shape[1]) > k:
        pairs = match(x[..., d:], min((n + 1) // 2, n - k))
        x, size, stay = merge(x, size, *pairs)
        places = places.gather(1, stay)
    return Entered(x[..., :d].to(features.dtype), places, size.log())


def fastv(context: Context, k: int) -> Tensor:
    r"""The tokens (B, k) that the last token attends to most (Chen et al., arXiv:2403.06764).

    Equation: $\mathrm{idx} = \mathrm{topk}_i\, \frac{1}{H} \sum_h A_{h, last, i}$

    Raises:
        InputError: before layer 0, where nothing has attended yet.
    """
    return top(context.attention(), k)


CONTEXTUAL = 10 / 64  # VisionZip's share of merged tokens


def visionzip(context: Context, k: int) -> Entered:
    r"""CLS, the patches it attends to most, the rest merged (Yang et al., arXiv:2412.04467).

    Equation: $\mathrm{idx} = \mathrm{topk}_i\, \frac{1}{H} \sum_h A_{h, cls, i}$
    Equation: $x_a = v_a + \operatorname{mean}_{i \to a} v_i$ of the contextual tokens a

    Of the rest, every n-th is an anchor; each other patch goes to the anchor that is most like it
    by key, whose mean is added to it. CLS counts as one of k and stands at the first free place;
    the repository counts it beside k, and its tokens stand close together.
    """
    vision = context.vision
    B, n, _ = vision.features.shape
    merged = round(CONTEXTUAL * k)
    dominant = k - merged - 1
    if k == n or dominant < 1:
        chosen = top(vision.saliency, k)
        return Entered(take(vision.features, chosen), chosen)
    chosen = top(vision.saliency, dominant)
    free = torch.ones(B, n, dtype=torch.bool, device=chosen.device).scatter(1, chosen, False)
    rest = free.nonzero()[:, 1].view(B, -1)  # (B, n - dominant)
    m = rest.shape[1]
    every = torch.arange(0, m, max(1, m // max(1, merged)), device=chosen.device)[:merged]
    anchors = rest[:, every]  # (B, merged)
    parts = [take(vision.features, chosen)]
    if merged:
        others = torch.ones(m, dtype=torch.bool, device=chosen.device).scatter(0, every, False)
        keys = F.normalize(take(vision.keys, rest), dim=-1)
        to = (keys[:, others] @ keys[:, every].mT).argmax(dim=-1)  # (B, m - merged) which anchor
        share = F.one_hot(to, merged).to(vision.features)  # (B, m - merged, merged)
        means = share.mT @ take(vision.features, rest[:, others])
        means = means / share.sum(1)[..., None].clamp_min(1)
        parts.append(take(vision.features, anchors) + means)
    first = free.scatter(1, anchors, False).int().argmax(1, keepdim=True)  # (B, 1) the CLS's place
    index = torch.cat((chosen, anchors, first), 1)
    tokens = torch.cat((*parts, vision.cls[:, None]), 1)
    order = index.argsort(dim=-1)
    return Entered(take(tokens, order), index.gather(1, order))


NEIGHBOURS = 32


def prumerge(context: Context, k: int) -> Entered:
    r"""The patches that CLS attends to most, with their neighbours (arXiv:2403.15388).

    Equation: $x_j = v_j + \sum_{i \in N_{32}(j)} a_i v_i, \quad j \in \mathrm{topk}_i\, a_i$

    a is CLS's attention, N the patches nearest by key. A fixed k in the place of the repository's
    count of outliers, and no token for what is left over.
    """
    vision = context.vision
    n = vision.features.shape[1]
    a = vision.saliency
    chosen = top(a, k)
    if k == n:
        return Entered(vision.features, chosen)
    keys = F.normalize(vision.keys, dim=-1)
    near = take(keys, chosen) @ keys.mT  # (B, k, n)
    near = near.scatter(2, chosen[..., None], -torch.inf)  # not itself
    member = torch.zeros_like(near).scatter(2, near.topk(min(NEIGHBOURS, n - 1)).indices, 1.0)
    added = (member * a[:, None]).to(vision.features) @ vision.features  # (B, k, d_vision)
    return Entered(take(vision.features, chosen) + added, chosen)


def pyramiddrop(context: Context, k: int) -> Tensor:
    r"""The tokens (B, k) the last word attends to most in the layer to come (arXiv:2410.17247).

    Equation: $\mathrm{idx} = \mathrm{topk}_i\, \frac{1}{H} \sum_h A_{h, last, i}$

    Raises:
        InputError: before the language model, where there is no layer.
    """
    return top(context.ahead(None), k)


def sparsevlm(context: Context, k: int) -> Tensor:
    r"""The tokens (B, k) that the words that see something attend to most (arXiv:2410.04417).

    Equation: $R = \{ w : \bar p_w > \operatorname{mean}_w \bar p_w \}, \quad
    \bar p_w = \operatorname{mean}_i \mathrm{softmax}_w (x_i \cdot t_w)$
    Equation: $\mathrm{idx} = \mathrm{topk}_i \operatorname{mean}_{w \in R} A_{wi}$

    What is dropped is not recycled into new tokens, and the budget is given, not found by rank.

    Raises:
        InputError: before the language model, where there is no layer.
    """
    likeness = context.visual.float() @ context.text.float().mT  # (B, n, t)
    likeness = likeness.masked_fill(~context.asked[:, None], -torch.inf)
    p = likeness.softmax(-1).mean(1)  # (B, t)
    mean = p.sum(1, keepdim=True) / context.asked.sum(1, keepdim=True)
    return top(context.ahead(((p >= mean) & context.asked).float()), k)


def divprune(context: Context, k: int) -> Tensor:
    r"""Greedy max-min cosine distance (Alvar et al., arXiv:2503.02175).

    Equation: $i = \arg\max_{i \notin S} \min_{j \in S} (1 - \cos(v_i, v_j))$

    The first token is the one whose nearest neighbour is farthest, each next one the farthest from
    those chosen.
    """
    unit = F.normalize(context.visual.float(), dim=-1)
    B, n, _ = unit.shape
    alike = unit @ unit.mT  # (B, n, n)
    # Exactly symmetric: of two that are nearest to each other the first is taken, however rounded.
    distance = 1 - (alike + alike.mT) / 2
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
    r"""Return how relevant each token is to the question, scaled to [0, 1]: (B, n).

    Equation: $r_i = \max_w \cos(v_i, t_w), \quad r \gets \frac{r - \min r}{\max r - \min r}$
    """
    words = F.normalize(context.text.float(), dim=-1)  # (B, t, d)
    cosines = F.normalize(context.visual.float(), dim=-1) @ words.mT  # (B, n, t)
    r = cosines.masked_fill(~context.asked[:, None], -torch.inf).amax(-1)  # (B, n)
    low, high = r.amin(1, keepdim=True), r.amax(1, keepdim=True)
    return (r - low) / (high - low).clamp_min(1e-6)


def cdpruner(context: Context, k: int) -> Tensor:
    r"""Greedy DPP MAP, relevance on both sides (Zhang et al., arXiv:2506.10967): (B, k).

    Equation: $S = \arg\max_S \det (\mathrm{diag}(r) L\, \mathrm{diag}(r))_S$

    L is cosine similarity; the greedy choice updates a Cholesky factor (Chen et al.,
    arXiv:1709.05135). The authors' r is the mean of -cos between CLIP's embeddings of patches and
    text. A LLaVA has no text tower, so r is the best word's cosine, which is stronger here.
    """
    r = relevance(context)  # (B, n)
    unit = F.normalize(context.visual.float(), dim=-1)
    B, n, _ = unit.shape
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
        InputError: where nobody knows what is needed.
    """
    if context.needed is None:
        raise InputError("the oracle knows drawn scenes only; their `needed` patches are missing")
    first, last = (context.patches == context.needed[:, i, None] for i in (0, 1))
    return top(context.noise() + 2.0 * first + 4.0 * last, k)


REGISTRY = {
    "random": Selector("chance", random),
    "uniform": Selector("every n-th", uniform),
    "pool": Selector("average pooling", pooled, inside=False),
    "tome": Selector("ToMe", tome, inside=False),
    "fastv": Selector("FastV", fastv, before=False),
    "visionzip": Selector("VisionZip", visionzip, inside=False),
    "prumerge": Selector("PruMerge, k centres", prumerge, inside=False),
    "pyramiddrop": Selector("PyramidDrop's choice", pyramiddrop, before=False),
    "sparsevlm": Selector("SparseVLM's choice, no recycling", sparsevlm, before=False),
    "divprune": Selector("DivPrune", divprune),
    "cdpruner": Selector("CDPruner", cdpruner),
    "oracle": Selector("oracle", oracle),
}

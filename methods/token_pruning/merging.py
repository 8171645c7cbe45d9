"""Merging tokens that are alike: ToMe (Bolya et al., arXiv:2210.09461), inside of a CLIP's tower.

In each layer, between attention and MLP, tokens are dealt into two sets; those of the first that
are most like one of the second, by their keys, become one with it. Nothing is learnt: it runs on a
tower as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from ..errors import InputError
from ..kit.rows import take, wide

# (B, n, d) tokens, CLS first, (B, n) sizes, (B, n, d_head) keys, r -> as many less r, and sizes
Reduce = Callable[[Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor]]


def match(keys: Tensor, r: int, *, cls: bool = False) -> tuple[Tensor, Tensor]:
    r"""Bipartite soft matching of keys (B, n, d): the places of r tokens and of their partners.

    Equation: $b(a) = \arg\max_{b\, \mathrm{odd}} \cos(k_a, k_b), \quad
    \mathrm{gone} = \mathrm{topr}_{a\, \mathrm{even}} \cos(k_a, k_{b(a)})$

    A CLS at place 0 is not merged, and since it is even nothing is merged into it.

    Returns:
        gone (B, r) and b(gone) (B, r).

    Raises:
        InputError: for more tokens than the even places hold.
    """
    unit = F.normalize(keys, dim=-1)
    near, to = (unit[:, ::2] @ unit[:, 1::2].mT).max(dim=-1)  # (B, even)
    if cls:
        near[:, 0] = -torch.inf
    if r > near.shape[1] - cls:
        raise InputError(f"{r} of {keys.shape[1]} tokens cannot be merged at once, half can")
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


def alike(h: Tensor, size: Tensor, keys: Tensor, r: int) -> tuple[Tensor, Tensor]:
    r"""ToMe's choice: (B, n, d) -> (B, n - r, d). Equation: $\mathrm{merge}(h, s, match(k, r))$"""
    return merge(h, size, *match(keys, r, cls=True))[:2]


def by_chance(
    generator: Generator, h: Tensor, size: Tensor, keys: Tensor, r: int
) -> tuple[Tensor, Tensor]:
    r"""Merged as `alike` does, partners by chance. Equation: $k_i \sim N(0, 1)$"""
    noise = torch.randn(*h.shape[:2], 8, generator=generator).to(h)
    return alike(h, size, noise, r)


def dropped(
    generator: Generator, h: Tensor, size: Tensor, keys: Tensor, r: int
) -> tuple[Tensor, Tensor]:
    r"""r patches leave by chance: (B, n - r, d).

    Equation: $\mathrm{stay} = \mathrm{top}_{n - r}\, u_i, \quad u_i \sim U(0, 1), \quad u_0 = 1$
    """
    u = torch.rand(h.shape[:2], generator=generator).to(h.device)
    u[:, 0] = 1.0
    stay = u.topk(h.shape[1] - r, dim=-1).indices.sort(dim=-1).values
    return take(h, stay), size.gather(1, stay)


def pooled(h: Tensor, size: Tensor, keys: Tensor, r: int) -> tuple[Tensor, Tensor]:
    r"""Patches averaged to a smaller square grid: (B, n - r, d), CLS as it is.

    Equation: $y_{rc} = \operatorname{mean}_{ij} h_{ij}, \quad
    \lfloor \frac{r S}{R} \rfloor \le i < \lceil \frac{(r + 1) S}{R} \rceil$, j as i

    The grid goes from S x S to R x R, and each cell stands for as many patches.

    Raises:
        InputError: where either number is no square.
    """
    if r == 0:
        return h, size
    n, k = h.shape[1] - 1, h.shape[1] - 1 - r
    side, cells = round(n**0.5), round(k**0.5)
    if (side * side, cells * cells) != (n, k):
        raise InputError(f"pooling makes a square of a square, not {k} tokens of {n}")
    image = torch.unflatten(h[:, 1:].mT, 2, (side, side))
    grid = F.adaptive_avg_pool2d(image, cells).flatten(2).mT
    sizes = torch.cat((size[:, :1], size.new_full((len(h), k), n / k)), 1)
    return torch.cat((h[:, :1], grid), 1), sizes


@torch.no_grad()
def merged_states(
    tower: Any, pixels: Tensor, fewer: Sequence[int], reduce: Reduce = alike, *, sized: bool = True
) -> tuple[Tensor, Tensor]:
    r"""A CLIP's tower in which r_l tokens are merged in layer l.

    Equation: $h \gets h + W_o\, \mathrm{softmax} \left( \frac{Q K^T}{\sqrt d} + \log s \right) V,
    \quad (h, s) \gets \mathrm{reduce}(h, s, \bar K, r_l), \quad h \gets h + \mathrm{MLP}(h)$

    The keys of the heads are averaged; a token that stands for s patches is attended to as s equal
    ones would be.

    Args:
        tower: a CLIPVisionModel.
        pixels: (B, channels, side, side).
        fewer: r of each layer; of layers behind the last, none.
        reduce: what merges; the others here are what it is compared with.
        sized: whether attention knows of s.

    Returns:
        states (B, 1 + n, d) of the last layer, CLS first, and sizes s (B, 1 + n).
    """
    h = tower.pre_layrnorm(tower.embeddings(pixels))
    size = torch.ones_like(h[..., 0], dtype=torch.float32)
    for at, layer in enumerate(tower.encoder.layers):
        attention, inside = layer.self_attn, layer.layer_norm1(h)
        heads = (-1, attention.head_dim)
        q, k, v = (
            part(inside).unflatten(2, heads).transpose(1, 2)
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        bias = size.log().to(h)[:, None, None] if sized else None
        read = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        h = h + attention.out_proj(read.transpose(1, 2).flatten(2))
        if at < len(fewer):
            h, size = reduce(h, size, k.mean(1), fewer[at])
        h = h + layer.mlp(layer.layer_norm2(h))
    return h, size


def schedule(patches: int, layers: int, mean: float) -> list[int]:
    r"""How many tokens leave in each layer so that `mean` of the patches go on, on average.

    Equation: $n_l = n_0 \rho^{l + 1}, \quad \operatorname{mean}_l n_l = \mathrm{mean}, \quad
    r_l = n_{l - 1} - n_l$

    Raises:
        InputError: for a mean above the patches, or below what halving in every layer leaves.
    """

    def counts(share: float) -> list[int]:
        left = [patches]
        for layer in range(layers):
            left.append(max(-(-left[-1] // 2), round(patches * share ** (layer + 1))))
        return left[1:]

    low, high = 0.5, 1.0
    for _ in range(40):
        share = (low + high) / 2
        low, high = (share, high) if sum(counts(share)) < mean * layers else (low, share)
    found = counts(high)
    if abs(sum(found) / layers - mean) > 1:
        least = sum(counts(0.5)) / layers
        raise InputError(f"a mean of {mean:g} tokens; {least:g} to {patches} can be had")
    return [before - after for before, after in zip([patches, *found], found, strict=False)]

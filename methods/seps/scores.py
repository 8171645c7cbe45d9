"""How much a patch matters: learnt, and guided by the texts and the image."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ScoreMLP(nn.Module):
    """A patch's own significance, whatever the text."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim // 4), nn.GELU(), nn.Linear(dim // 4, 1))

    def forward(self, patches: Tensor) -> Tensor:
        r"""Scores in (0, 1) of patches (B, N, C): (B, N).

        Equation 1: $s_p = \sigma(\mathrm{MLP}(v))$
        """
        return torch.sigmoid(self.net(patches)[..., 0])


@torch.no_grad()
def cosine_guide(patches: Tensor, texts: Tensor) -> Tensor:
    r"""Cosine of every patch with every text vector, without gradient.

    Patches (B, N, C) and texts (T, C) give (T, B, N).

    Equation 2: $s_{st} = \frac{v \cdot E}{\lVert v \rVert \lVert E \rVert}$
    """
    v = F.normalize(patches, dim=-1)  # (B, N, C)
    E = F.normalize(texts, dim=-1)  # (T, C)
    return torch.einsum("bnc,tc->tbn", v, E)


@torch.no_grad()
def self_guide(patches: Tensor) -> Tensor:
    r"""Cosine of every patch (B, N, C) with the mean of its image, without gradient: (B, N).

    Equation 2: $s_{im} = \frac{v \cdot \bar v}{\lVert v \rVert \lVert \bar v \rVert}$
    """
    v = F.normalize(patches, dim=-1)  # (B, N, C)
    E = F.normalize(patches.mean(1), dim=-1)  # (B, C)
    return torch.einsum("bnc,bc->bn", v, E)


def minmax(scores: Tensor) -> Tensor:
    r"""The last dimension of (..., N) stretched to 0 .. 1; a constant one becomes 0.

    Dividing by d first, as the paper does, would change nothing.

    Equation 2: $s \mapsto \frac{s - \min s}{\max s - \min s}$
    """
    low = scores.amin(-1, keepdim=True)
    high = scores.amax(-1, keepdim=True)
    return (scores - low) / (high - low).clamp_min(torch.finfo(scores.dtype).eps)

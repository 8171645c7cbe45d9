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
def text_guide(patches: Tensor, texts: Tensor, *, cosine: bool = True) -> Tensor:
    r"""How much every patch has of every text vector, without gradient.

    Patches (B, N, C) and texts (T, C) give (T, B, N): the cosine, or the source's product, by which
    a long patch has more of every text than a short one.

    Equation 2: $s_{st} = \frac{v \cdot E}{\lVert v \rVert \lVert E \rVert}
    \;\mathrm{or}\; \frac{v \cdot E}{C}$
    """
    dots = torch.einsum("bnc,tc->tbn", _side(patches, cosine), _side(texts, cosine))
    return dots if cosine else dots / patches.shape[-1]


@torch.no_grad()
def self_guide(patches: Tensor, *, cosine: bool = True) -> Tensor:
    r"""The same of every patch (B, N, C) with the mean of its image, without gradient: (B, N).

    Equation 2: $s_{im} = \frac{v \cdot \bar v}{\lVert v \rVert \lVert \bar v \rVert}
    \;\mathrm{or}\; \frac{v \cdot \bar v}{C}$
    """
    mean = _side(patches.mean(1), cosine)  # (B, C)
    dots = torch.einsum("bnc,bc->bn", _side(patches, cosine), mean)
    return dots if cosine else dots / patches.shape[-1]


def _side(vectors: Tensor, cosine: bool) -> Tensor:
    """One side of the product (..., C), of length 1 for a cosine."""
    return F.normalize(vectors, dim=-1) if cosine else vectors


def minmax(scores: Tensor) -> Tensor:
    r"""The last dimension of (..., N) stretched to 0 .. 1; a constant one becomes 0.

    Whether a product was divided by C first, as the paper's is, changes nothing here.

    Equation 2: $s \mapsto \frac{s - \min s}{\max s - \min s}$
    """
    low = scores.amin(-1, keepdim=True)
    high = scores.amax(-1, keepdim=True)
    return (scores - low) / (high - low).clamp_min(torch.finfo(scores.dtype).eps)

"""Which patches stay, what they are merged into, and what is left of the others."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


def top_mask(scores: Tensor, kept: int) -> Tensor:
    r"""1 for the `kept` highest scores (..., N) of a row, else 0; exactly `kept`, ties or not.

    Equation: $K = \lceil \rho N \rceil$
    """
    index = scores.topk(kept, dim=-1, sorted=False).indices  # (..., K)
    return torch.zeros_like(scores).scatter_(-1, index, 1.0)


def logistic_noise(like: Tensor) -> Tensor:
    r"""The difference of two Gumbel variables, (...) `like` another, by torch's global generator.

    Drawn in single precision at least: in half precision u has a few hundred values.

    Equation: $g_1 - g_2 = \log u - \log (1 - u)$
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    u = torch.rand_like(like, dtype=dtype).clamp(1e-6, 1 - 1e-6)
    return (u.log() - (-u).log1p()).to(like.dtype)


class Aggregation(nn.Module):
    """How strongly each aggregated token asks for each patch, from the patch alone.

    The last bias adds the same to a token's logit of every patch, which a softmax over the patches
    does not see: it is there only where `bias` asks for the source's count of parameters.
    """

    def __init__(self, dim: int, tokens: int, *, bias: bool = True) -> None:
        super().__init__()
        hidden = int(0.2 * dim)
        self.net = nn.Sequential(
            nn.LayerNorm(dim),
            nn.Linear(dim, hidden),
            nn.GELU(),
            nn.Linear(hidden, tokens, bias=bias),
        )

    def forward(self, patches: Tensor, scale: Tensor) -> Tensor:
        r"""Strengths of patches (B, N, C) in J aggregated tokens, before the softmax: (B, N, J).

        Equation 4: $e_{ij} = \exp(\mathrm{scale} \cdot \mathrm{MLP}(v_i)_j)$
        """
        logits = scale * self.net(patches)  # (B, N, J)
        return torch.exp(logits - logits.amax(1, keepdim=True))


@dataclass(frozen=True)
class Shares:
    """What one branch takes of every patch, for every caption; T is 1 where they choose alike."""

    kept: Tensor  # (T, B, J, N), of the patches that stay in each aggregated token; over N 1
    dropped: Tensor  # (T, B, N), of the others in the extra token; over N 1, or 0 if none


def share(strengths: Tensor, gate: Tensor, scores: Tensor) -> Shares:
    r"""The weights with which patches are merged.

    Args:
        strengths: (B, N, J), `Aggregation`'s, the same for every caption.
        gate: (T, B, N), 1 for a patch that stays and 0 for one that does not.
        scores: (T, B, N), by which the dropped are weighed.

    The softmax over the patches that stay is written with the gate as a factor, so that a gate
    with a gradient has one also where it is 0.

    Equation 4: $W_{ij} = \frac{D_i e_{ij}}{\sum_l D_l e_{lj}}$
    """
    tiny = torch.finfo(strengths.dtype).tiny
    total = torch.einsum("tbn,bnj->tbj", gate, strengths).clamp_min(tiny)  # (T, B, J)
    kept = strengths.mT / total[..., None] * gate[:, :, None]  # (T, B, J, N)
    dropped = (1 - gate) * scores.exp()  # (T, B, N)
    # A score is -2 at least, so that one dropped patch alone makes e^-2: 0.1 means none was.
    dropped = dropped / dropped.sum(-1, keepdim=True).clamp_min(0.1)  # (T, B, N)
    return Shares(kept, dropped)


def merge(patches: Tensor, branches: list[Shares]) -> list[Tensor]:
    r"""Aggregated tokens (T, B, J, C) and the extra one (T, B, 1, C) of patches (B, N, C).

    The branches are summed before they meet the patches: one product instead of one a branch.

    Equation 4: $\hat v_j = \sum_i (W^s_{ij} + W^d_{ij}) v_i$
    """
    kept = sum((one.kept for one in branches[1:]), branches[0].kept)  # (T, B, J, N)
    dropped = sum((one.dropped for one in branches[1:]), branches[0].dropped)  # (T, B, N)
    tokens = torch.einsum("tbjn,bnc->tbjc", kept, patches)  # (T, B, J, C)
    extra = torch.einsum("tbn,bnc->tbc", dropped, patches)  # (T, B, C)
    return [tokens, extra[:, :, None]]

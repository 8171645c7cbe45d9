"""How well a set of tokens matches a text, and the losses that train it."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError

LEAK = 0.1  # slope of open_source's LeakyReLU


class Relevance(nn.Module):
    """What the strongest matches say beyond their mean; one MLP for both directions.

    The last bias adds the same to every similarity, of which the losses see differences only: it
    is there only where `bias` asks for the source's count of parameters.
    """

    def __init__(self, top: int, *, bias: bool = True) -> None:
        super().__init__()
        self.top = top
        self.net = nn.Sequential(
            nn.Linear(top, 2 * top), nn.GELU(), nn.Linear(2 * top, 1, bias=bias)
        )

    def forward(self, best: Tensor) -> Tensor:
        r"""A term of the similarity from best matches (..., n), -inf where there is none: (...).

        Equation 5: $\mathrm{MLP}(\mathrm{topk}\, \max_j A)$
        """
        strongest = best.topk(min(self.top, best.shape[-1]), dim=-1).values
        strongest = strongest.masked_fill(strongest == -torch.inf, 0.0)
        strongest = F.pad(strongest, (0, self.top - strongest.shape[-1]))
        return torch.squeeze(self.net(strongest), -1)


def cosines(tokens: Tensor, words: Tensor) -> Tensor:
    r"""Tokens (T, B, J, C) with the words (T, W, C) of their caption, of length 1: (T, B, J, W).

    A token of zeros, as the extra one is where nothing was dropped, has cosine 0, and is divided by
    1: by a tiny length its gradient would be 1e12 times those of the others. Tokens that every
    caption sees alike come once: (1, B, J, C).

    Equation 5: $A_{jw} = \frac{\hat v_j \cdot t_w}{\lVert \hat v_j \rVert \lVert t_w \rVert}$
    """
    dots = torch.matmul(tokens.flatten(1, 2), words.mT)  # (T, B * J, W)
    length = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True)  # (..., B, J, 1)
    least = max(1e-12, torch.finfo(length.dtype).tiny)  # in float16 1e-12 would be 0
    length = torch.where(length > 0, length.clamp_min(least), 1.0)  # (..., B, J, 1)
    return dots.view(len(dots), *tokens.shape[1:3], -1) / length


def alignment(
    A: Tensor,
    real: Tensor,
    relevance: Relevance | None,
    *,
    stay: Tensor | None = None,
    halves: Literal["both", "tokens", "words"] = "both",
) -> Tensor:
    r"""Similarities (T, B) from cosines (T, B, J, W), of which words `real` (T, W) are no padding.

    Without `relevance` this is open_source's: LeakyReLU, then the two means. `stay` (T, B, J) has 0
    for tokens that are not there; its gradient is that of the mean over tokens. `halves` leaves out
    what the words, or the tokens, look for.

    Equation 5: $S = \operatorname{mean}_i \max_j A + \mathrm{MLP}(\mathrm{topk}_i \max_j A)
    + \operatorname{mean}_j \max_i A + \mathrm{MLP}(\mathrm{topk}_j \max_i A)$
    """
    if relevance is None:
        A = F.leaky_relu(A, LEAK)
    of_tokens = A.masked_fill(~real[:, None, None], -torch.inf).amax(3)  # (T, B, J)
    per_token = of_tokens.mean(-1)  # (T, B)
    if stay is not None:
        per_token = (stay * of_tokens).sum(-1) / stay.sum(-1)  # (T, B)
        A = A.masked_fill(stay[..., None] == 0, -torch.inf)  # (T, B, J, W)
        of_tokens = of_tokens.masked_fill(stay == 0, -torch.inf)  # (T, B, J)
    of_words = A.amax(2)  # (T, B, W)
    per_word = of_words.masked_fill(~real[:, None], 0.0).sum(-1) / real.sum(1)[:, None]
    if relevance is not None:
        per_token = per_token + relevance(of_tokens)
        per_word = per_word + relevance(of_words.masked_fill(~real[:, None], -torch.inf))
    parts = {"both": per_token + per_word, "tokens": per_token, "words": per_word}  # (T, B) each
    return parts[halves]


def alignment_loss(
    S: Tensor, margin: float, *, hardest: float = 1.0, owners: Tensor | None = None
) -> Tensor:
    r"""Hinge loss of similarities (B, B), captions by images, whose diagonal are the true pairs.

    T' and I' are the hardest negatives of the batch. `hardest` is h, the weight of that loss
    against its mean over all negatives, by which a training begins: 1 is the source's. `owners`
    (B,) says whose image a pair has: captions of one image are no negatives of each other.

    Equation 6: $L_{align} = [\alpha - S(I,T) + S(I,T')]_+ + [\alpha - S(I,T) + S(I',T)]_+$

    Equation: $L = h L_{align} + (1 - h) \operatorname{mean}_{T', I'} L_{align}$

    Raises:
        InputError: when the batch has no negative pair.
    """
    if S.ndim != 2 or S.shape[0] != S.shape[1] or len(S) < 2:
        raise InputError(f"S is {tuple(S.shape)}; two or more images, each with its caption")
    true = S.diagonal()  # (B,)
    if owners is None:
        owners = torch.arange(len(S), device=S.device)
    same = owners[:, None] == owners  # (B, B)
    negatives = int((~same).sum())
    if not negatives:
        raise InputError("every pair of the batch has the same image; there is no negative")
    of_image = (margin - true[None] + S).relu().masked_fill(same, 0.0)  # (B, B)
    of_text = (margin - true[:, None] + S).relu().masked_fill(same, 0.0)  # (B, B)
    worst = of_image.amax(0).mean() + of_text.amax(1).mean()
    every = (of_image.sum() + of_text.sum()) / negatives
    return hardest * worst + (1 - hardest) * every


def ratio_loss(masks: list[Tensor], keep: float, lam: float | None = None) -> Tensor:
    r"""How far the share of patches that stay, by masks (T, B, N), is from `keep`: a scalar.

    `lam` weighs each branch: the paper's default is 1, by which two branches that keep half of the
    patches each are told to keep a quarter; without it they share 1.

    Equation 7: $L_{ratio} = (\rho - \lambda_1 \bar D_s - \lambda_2 \bar D_d)^2$
    """
    share = torch.stack([mask.mean() for mask in masks]).sum()
    return (keep - share * (1 / len(masks) if lam is None else lam)) ** 2

"""Choosing k of n with gradients: Gumbel noise, straight-through masks, gates.

Gumbel-softmax: Jang et al., arXiv:1611.01144; Gumbel-top-k: Kool et al., arXiv:1903.06059.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError
from ..kit import noise


def check_budget(k: int, n: int) -> None:
    """Refuse a budget k of n tokens that is not 1 to n; raises InputError."""
    if not 1 <= k <= n:
        raise InputError(f"a budget of {k} tokens; there are {n}, and at least one is kept")


def top(scores: Tensor, k: int) -> Tensor:
    r"""The k highest scores of each row, in the order of their places: (B, n) -> (B, k) indices.

    Equation: $\mathrm{idx} = \mathrm{sort}(\mathrm{topk}_i\, s_i)$

    Raises:
        InputError: for a budget outside 1 to n, or scores that are no numbers.
    """
    check_budget(k, scores.shape[-1])
    if torch.isnan(scores).any():
        raise InputError("a token's score is no number: there is NaN in the weights or the image")
    return scores.topk(k, dim=-1).indices.sort(dim=-1).values


def straight_through(scores: Tensor, k: int, tau: float) -> tuple[Tensor, Tensor]:
    r"""Top-k whose forward is exactly hard and whose gradient is that of a relaxed membership.

    Theta stands midway between the k-th and the next score; sg stops the gradient.

    Equation: $\mathrm{soft}_i = \sigma \left( \frac{s_i - \theta}{\tau} \right)$
    Equation: $\mathrm{mask} = \mathrm{hard} + \mathrm{soft} - \mathrm{sg}(\mathrm{soft})$

    Args:
        scores: (B, n), noise included.
        k: how many to keep.
        tau: temperature of the relaxed membership.

    Returns:
        indices (B, k) in rising order, mask (B, n) of exact zeros and ones.
    """
    index = top(scores, k)
    hard = torch.zeros_like(scores).scatter(1, index, 1.0)
    soft = log_membership(scores, k, tau).exp()
    return index, noise.straight_through(hard, soft)


def log_membership(scores: Tensor, k: int, tau: float) -> Tensor:
    r"""The log of the relaxed membership of the k highest: (B, n) -> (B, n).

    Equation: $\log \sigma \left( \frac{s_i - \theta}{\tau} \right)$
    """
    ranked = scores.detach().sort(dim=-1, descending=True).values
    theta = (ranked[:, k - 1] + ranked[:, min(k, scores.shape[1] - 1)]) / 2  # (B,)
    return F.logsigmoid((scores - theta[:, None]) / tau)


def soft_gate(logits: Tensor, tau: float, noisy: bool) -> Tensor:
    r"""The logarithm of the source's relaxed mask.

    Equation: $m = \mathrm{softmax} \left( \frac{[0, l] + g}{\tau} \right)_1$

    Args:
        logits: l, (B, n).
        tau: temperature.
        noisy: add Gumbel noise, as in training.

    Returns:
        log m, (B, n): a bias on the keys; at m -> 0 the token is as good as dropped.
    """
    pair = torch.stack((torch.zeros_like(logits), logits), -1)  # (B, n, 2)
    if noisy:
        pair = pair + noise.gumbel(pair)
    return F.log_softmax(pair / tau, dim=-1)[..., 1]

"""Stage 1: n visual tokens merged to M before the language model sees them.

    s = score(V);  idx = top-M(s + Gumbel), sorted;  C = V[idx]
    A = softmax_j((W_q V)(W_k C)^T / (sqrt(d) tau) + s_j);  A <- A / column sums;  out = A^T V

The source leaves s_j out of A, so its scorer has no gradient, and does not divide by the column
sums, so that a merged token is about n / M times too long; `scored=False` is the source.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kit.noise import gumbel
from .choice import take, wide
from .config import PruningConfig
from .relax import log_membership, straight_through


@dataclass(frozen=True)
class Merged:
    """What leaves a merger.

    `tokens` (B, M, d_vision); `index` (B, M) rising places of the centres; `weights` (B, n, M), how
    much of each source is in each token; `gate` (B, M), a bias on the keys that is exactly 0 and
    has the gradient of the log of the choice; `scores` (B, n). In training all n tokens are there.
    """

    tokens: Tensor
    index: Tensor
    weights: Tensor
    gate: Tensor
    scores: Tensor


class Merger(nn.Module):
    """What both mergers share: choice of centres and aggregation. Subclasses score and embed."""

    def __init__(self, d: int, scored: bool) -> None:
        super().__init__()
        self.scored = scored
        self.out: nn.Linear | None = None  # the source's projection back of what it merges
        self.query = nn.Linear(d, d)
        self.key = nn.Linear(d, d)
        if scored:  # a token starts nearest to itself, which random maps do not give
            nn.init.orthogonal_(self.query.weight, gain=4.0)
            self.key.weight.data.copy_(self.query.weight.data)
            for map_ in (self.query, self.key):
                nn.init.zeros_(map_.bias)

    def score(self, V: Tensor, text: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        r"""Scores (B, n) and what similarity is measured on (B, n, d), each token by itself.

        Equation: $s_i = f(v_i, T) \in \mathbb{R}, \quad u_i = g(v_i) \in \mathbb{R}^d$

        V is (B, n, d_vision), the question T (B, t, d_text), and padding in it, where `valid`
        (B, t) is False, counts for nothing.
        """
        raise NotImplementedError

    def forward(
        self, V: Tensor, text: Tensor, valid: Tensor, keep: int, *, tau: float, noise: bool = False
    ) -> Merged:
        r"""Merge.

        Equation: $A = \mathrm{softmax}_j \left(
            \frac{W_q u_i \cdot W_k c_j}{\sqrt d \tau} + s_j \right)$
        Equation: $o_j = \frac{\sum_i A_{ij} v_i}{\sum_i A_{ij}}$
        Equation: $o_j = W_o \sum_i A_{ij} u_i + b_o \;\mathrm{in\ the\ source}$

        u is what `score` gives beside s, layer-normed; c_j and s_j are those of centre j. The
        source has u as it is, no s_j and no division; where it does not look at the question, it
        merges v as we do.

        Args:
            V: visual features (B, n, d_vision), of any floating type; so are those that leave.
            text: embeddings of the question (B, t, d_text); `simple` does not look at them.
            valid: (B, t) bool, False for padding.
            keep: M, how many tokens leave; all n leave as they came.
            tau: temperature of choice and aggregation.
            noise: training: Gumbel noise on the choice, and tokens that are not chosen stay where
                they are, their keys gated by the log of their relaxed membership; a token that is
                gone could not teach the scorer that it was needed.

        Raises:
            InputError: for M outside 1 to n, or scores that are no numbers.
        """
        given, dtype = V, self.query.weight.dtype  # the model may be of half precision
        V, text = V.to(dtype), text.to(dtype)
        s, inner = self.score(V, text, valid)
        n = V.shape[1]
        every = torch.arange(n, device=V.device).expand(len(V), n)
        if keep == n and self.scored:
            same = torch.eye(n, dtype=V.dtype, device=V.device).expand(len(V), n, n)
            return Merged(given, every, same, torch.zeros_like(s), s)
        noisy = s + gumbel(s) if noise else s
        index, mask = straight_through(noisy, keep, tau)
        if self.scored:  # else all sources go to the longest centre
            inner = F.layer_norm(inner, inner.shape[-1:])
        centres = take(inner, index)  # (B, M, d)
        logits = self.query(inner) @ self.key(centres).mT / (inner.shape[-1] ** 0.5 * tau)
        if self.scored:
            logits = logits + s.gather(1, index)[:, None]
        A = logits.softmax(dim=-1)  # (B, n, M)
        gate = torch.zeros_like(index, dtype=s.dtype)
        if self.scored:
            A = A / A.sum(dim=1, keepdim=True).clamp_min(1e-9)
            gate = mask.gather(1, index).log()
        tokens = A.mT @ V if self.out is None else self.out(A.mT @ inner)
        tokens = tokens.to(given.dtype)
        if not (noise and self.scored):
            return Merged(tokens, index, A, gate, s)
        gates = log_membership(noisy, keep, tau).scatter(1, index, gate)  # (B, n)
        return Merged(given.scatter(1, wide(index, V), tokens), every, A, gates, s)


class SimpleMerger(Merger):
    """Scores patches by themselves: s = Linear, ReLU, Dropout, Linear."""

    def __init__(self, d_vision: int, config: PruningConfig) -> None:
        super().__init__(d_vision, config.scored_merge)
        d = config.d_internal
        self.scorer = nn.Sequential(
            nn.Linear(d_vision, d), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(d, 1)
        )

    def score(self, V: Tensor, text: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        r"""(B, n, d_vision) -> scores (B, n) and V itself.

        Equation: $s_i = w \cdot \mathrm{drop}(\max(0, W v_i + b)) + b', \quad u_i = v_i$
        """
        return self.scorer(V)[..., 0], V


class QuestionMerger(Merger):
    """Scores patches by what is asked: patches attend to the question.

    The source merges the inner features and projects them back, so keeping all tokens changes them;
    by default the raw features are merged and there is no projection.
    """

    def __init__(self, d_vision: int, d_text: int, config: PruningConfig) -> None:
        d = config.d_internal
        super().__init__(d, config.scored_merge)
        self.vision = nn.Linear(d_vision, d)
        self.text = nn.Linear(d_text, d)
        self.attention = nn.MultiheadAttention(d, config.num_heads, batch_first=True)
        self.scorer = score_head(d)
        if not config.scored_merge:
            self.out = nn.Linear(d, d_vision)

    def score(self, V: Tensor, text: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        r"""(B, n, d_vision), (B, t, d_text) -> scores (B, n) and inner features (B, n, d).

        Equation: $s_i = \mathrm{MLP}(u_i + \mathrm{MHA}(u_i, W_t T + b_t)), \quad
        u_i = W_v v_i + b_v$
        """
        inner = self.vision(V)
        asked = attend(self.attention, inner, self.text(text), valid)
        return self.scorer(inner + asked)[..., 0], inner


def score_head(d: int) -> nn.Sequential:
    """d -> d / 2 -> 1, the source's scorer of both question-aware parts."""
    return nn.Sequential(nn.Linear(d, max(1, d // 2)), nn.ReLU(), nn.Linear(max(1, d // 2), 1))


def attend(attention: nn.MultiheadAttention, visual: Tensor, text: Tensor, valid: Tensor) -> Tensor:
    r"""Patches (B, n, d) read the question (B, t, d), padding left out: (B, n, d).

    Equation: $y_i = W_o \left[ \sum_{j\,\mathrm{valid}} p^h_{ij} W^h_v t_j \right]_h, \quad
    p^h_i = \mathrm{softmax}_{j\,\mathrm{valid}} \frac{W^h_q x_i \cdot W^h_k t_j}{\sqrt{d / H}}$

    Each map W has a bias.
    """
    read: Tensor = attention(visual, text, text, key_padding_mask=~valid, need_weights=False)[0]
    return read


def make_merger(config: PruningConfig, d_vision: int, d_text: int) -> Merger | None:
    """The configured merger; None where there is none."""
    if config.merger_type == "none":
        return None
    if config.merger_type == "simple":
        return SimpleMerger(d_vision, config)
    return QuestionMerger(d_vision, d_text, config)

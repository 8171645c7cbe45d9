"""The concept head: which tokens become concepts, and which of the K concepts each becomes.

Straight-through Gumbel-Softmax (Jang et al., arXiv:1611.01144): forward takes the argmax of
logits + noise, backward the softmax at temperature tau.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..kit.precision import unrounded
from .config import ConceptConfig


@dataclass
class Routing:
    """The head's decisions for a batch."""

    is_concept: Tensor  # (B, T) bool, with the run cap
    ids: Tensor  # (B, T) long, meaningful where is_concept
    logits: Tensor  # (B, T, K + 1), NULL last
    noisy: Tensor  # (B, T, K + 1) logits with noise
    chosen: Tensor  # (B, T) bool, before the run cap
    signal: Tensor | None = None  # (B, T, width) what a boundary rule read
    memory: Tensor | None = None  # (B, memory) what it remembers at the end


class Threshold(nn.Module):
    """A threshold that follows a target."""

    threshold: Tensor
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("threshold", torch.tensor(0.0))
        self.register_buffer("seen", torch.tensor(0))

    def follow(self, target: Tensor, share: float = 0.1) -> None:
        r"""Move a share of the way to `target`, a scalar tensor; all of it the first time.

        Equation: $\theta \leftarrow \theta + \eta (\theta^* - \theta)$
        """
        self.threshold.lerp_(target.to(self.threshold), share if int(self.seen) else 1.0)
        self.seen += 1


class NullController(Threshold):
    """Holds the share of NULLs at its target, in training and at evaluation.

    In training the notes' rule moves a bias on the NULL logit: null_bias += eta (target - rate).
    At evaluation there is no noise to keep rare choices alive, and a plain argmax settles on NULL
    everywhere; so a position becomes a concept where logit_NULL - logsumexp(concepts) lies under
    `threshold`, which follows the quantile of that margin that leaves the target rate.
    """

    null_bias: Tensor

    def __init__(self, null_rate: float, step: float) -> None:
        super().__init__()
        self.null_rate = null_rate
        self.step_size = step
        self.register_buffer("null_bias", torch.tensor(0.0))

    @torch.no_grad()
    def update(self, margin: Tensor, is_concept: Tensor) -> None:
        r"""Learn from one training batch.

        b is `null_bias`, r the target `null_rate`; the threshold moves along and is then
        calibrated.

        Equation: $b \leftarrow b + \eta (r - \bar r), \quad \bar r = 1 - \operatorname{mean} c$

        Args:
            margin: (N,) logit_NULL - logsumexp(concepts), without noise.
            is_concept: (N,) bool, what was chosen with noise, before the run cap.
        """
        change = self.step_size * (self.null_rate - (1 - is_concept.float().mean()))
        self.null_bias += change
        self.threshold += change  # margins rise with the bias
        self.calibrate(margin + change, 0.1)

    @torch.no_grad()
    def calibrate(self, margin: Tensor, share: float = 1.0) -> None:
        r"""Move the threshold to the quantile of `margin` (N,) that makes 1 - null_rate concepts.

        Equation: $\theta^* = Q_{1 - r}(\mathrm{margin})$
        """
        # torch.quantile refuses more than 2^24 numbers, and sorts all of them.
        self.follow(torch.quantile(margin.flatten()[: 1 << 20].float(), 1 - self.null_rate), share)


class ConceptHead(nn.Module):
    """K + 1 logits from the shallow hidden state, and the embedding of the chosen concepts."""

    def __init__(self, d: int, config: ConceptConfig, embedding_std: float) -> None:
        super().__init__()
        self.temperature = config.temperature
        # The input is normalised to unit RMS, so logits have std logit_std whatever the base.
        self.proj = nn.Linear(d, config.n_concepts + 1)
        nn.init.normal_(self.proj.weight, std=config.logit_std / math.sqrt(d))
        nn.init.zeros_(self.proj.bias)
        self.embedding = nn.Embedding(config.n_concepts, d)
        nn.init.normal_(self.embedding.weight, std=embedding_std)
        self.control = NullController(1 - config.rho, config.null_rate_step)
        self._start_null(1 - config.rho)

    @torch.no_grad()
    def _start_null(self, r: float) -> None:
        """Begin at a NULL rate of r.

        With K equal logits e^b / (e^b + K) = r gives b = log(K r / (1 - r)); with logits that vary
        log K becomes their mean logsumexp, taken here over random directions.
        """
        self.proj.weight[-1] = 0
        directions = F.rms_norm(torch.randn(256, self.proj.in_features), (self.proj.in_features,))
        spread = self.proj(directions)[:, :-1].logsumexp(-1).mean()
        self.control.null_bias += spread + math.log(r / (1 - r))

    def forward(self, h: Tensor) -> Tensor:
        r"""Logits over K concepts and NULL: (B, T, d) -> (B, T, K + 1).

        Equation: $c = \mathrm{Head}(h)$
        """
        logits = unrounded(self.proj, F.rms_norm(h, (h.shape[-1],)))  # (B, T, K + 1)
        null = logits[..., -1:] + self.control.null_bias
        return torch.cat([logits[..., :-1], null], dim=-1)

    def margin(self, logits: Tensor) -> Tensor:
        r"""The lead of NULL: logit_NULL - logsumexp(concepts), (.., K + 1) -> (..).

        Equation: $\mathrm{margin}_t = l_{t, \mathrm{NULL}} - \log \sum_{k = 1}^{K} e^{l_{tk}}$
        """
        return logits[..., -1] - logits[..., :-1].logsumexp(-1)

    def route(self, logits: Tensor, noise: Tensor | None) -> Routing:
        r"""Choose NULL or a concept at every position.

        k is one of the K concepts. At evaluation g is 0, and the controller's threshold decides.

        Equation: $c_t = [\, \max_k (l_{tk} + g_{tk}) > l_{t, \mathrm{NULL}}
        + g_{t, \mathrm{NULL}} \,] \;\mathrm{or}\; [\, \mathrm{margin}_t < \theta \,], \quad
        \mathrm{id}_t = \arg\max_k (l_{tk} + g_{tk})$

        Args:
            logits: (B, T, K + 1) from `forward`.
            noise: (B, T, K + 1) Gumbel noise in training; None at evaluation.
        """
        if noise is None:
            is_concept = self.margin(logits) < self.control.threshold
            noisy = logits
        else:
            noisy = logits + noise
            is_concept = noisy[..., :-1].amax(-1) > noisy[..., -1]
        return Routing(is_concept, noisy[..., :-1].argmax(-1), logits, noisy, is_concept)

    def embed(self, ids: Tensor, noisy: Tensor | None) -> Tensor:
        r"""e = E[id] + (p E - stopgrad(p E)): the chosen embedding, with the softmax's gradient.

        Equation: $e = E_{id} + (p E - \mathrm{sg}(p E))$

        Args:
            ids: (B, C) chosen concepts.
            noisy: (B, C, K + 1) their logits with noise; None where no gradient is wanted.

        Returns:
            (B, C, d).
        """
        hard: Tensor = self.embedding(ids)
        if noisy is None or not torch.is_grad_enabled():
            return hard
        p = (noisy / self.temperature).softmax(-1)[..., :-1]  # NULL embeds to zero
        soft = p @ self.embedding.weight
        return hard + (soft - soft.detach())


def draw(logits: Tensor, temperature: float, generator: torch.Generator | None = None) -> Tensor:
    r"""One id a row: (..., V) -> (...). The likeliest at temperature 0, else a sample.

    Equation: $P(v) = \frac{e^{l_v / \tau}}{\sum_w e^{l_w / \tau}}, \quad
    v = \arg\max_w l_w \;\mathrm{at}\; \tau = 0$
    """
    if temperature == 0:
        return logits.argmax(-1)
    p = (logits / temperature).softmax(-1)
    return torch.multinomial(p.flatten(0, -2), 1, generator=generator).view(p.shape[:-1])


def usage(logits: Tensor) -> Tensor:
    r"""Bonus for many codes, each used surely: (N, .., K) logits -> nats, a scalar.

    Bars are means over the N, the sum is over what lies between.

    Equation: $U = \sum (H(\bar p) - \frac{1}{2} \overline{H(p)}), \quad
    p = \mathrm{softmax}(\mathrm{logits})$
    """
    p = logits.softmax(-1)
    return (entropy(p.mean(0)) - entropy(p).mean(0) / 2).sum()


def entropy(p: Tensor) -> Tensor:
    r"""Entropy in nats of the last dimension.

    Equation: $H(p) = -\sum_k p_k \log p_k$
    """
    return -(p * p.clamp_min(1e-12).log()).sum(-1)


def since(is_concept: Tensor) -> Tensor:
    r"""Tokens since the last concept, 0 on one: (B, T) bool -> (B, T).

    Positions count from 0; last is -1 before the first concept.

    Equation: $\mathrm{since}_t = t - \mathrm{last}_t, \quad
    \mathrm{last}_t = \max \{s \le t : c_s\}$
    """
    index = torch.arange(is_concept.shape[1], device=is_concept.device)
    return index - torch.where(is_concept, index, -1).cummax(1).values


def cap_runs(is_concept: Tensor, cap: int) -> Tensor:
    r"""Force a concept after `cap` NULLs in a row: (B, T) bool -> (B, T) bool.

    A cap R of 0 forces none.

    Equation: $c'_t = c_t \vee \mathrm{since}_t \bmod (R + 1) = 0$
    """
    return is_concept if cap == 0 else is_concept | (since(is_concept) % (cap + 1) == 0)

"""Five ways to decide where a concept stands, and H-Net's for comparison.

A rule reads the shallow hidden states in parallel (`signal`), then walks along time with a small
state (`step`). The packed pass and the decoder take the same steps, so they agree by construction.
Where a rule needs a threshold, `observe` moves it so that a share rho of positions are concepts.
"""

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.concept_lm.head import entropy


class Boundary(nn.Module):
    """Base of the rules that do not use NULL.

    `width` is how many numbers a signal has a token, `memory` how many the state has a row.
    """

    threshold: Tensor
    seen: Tensor
    width = 1
    memory = 1

    def __init__(self, rho: float) -> None:
        super().__init__()
        self.rho = rho
        self.register_buffer("threshold", torch.tensor(0.0))
        self.register_buffer("seen", torch.tensor(0))

    def signal(self, model: Any, h: Tensor, probe: Any = None) -> Tensor:
        """What the rule reads: (B, T, d) -> (B, T, width). `probe` is a cache while decoding."""
        raise NotImplementedError

    def start(self, signal: Tensor) -> Tensor:
        """The state before the first token: (B, memory)."""
        return signal.new_zeros(len(signal), self.memory)

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One token of each row: (B, width), (B, memory) -> is_concept (B,), new state."""
        raise NotImplementedError

    @torch.no_grad()
    def packed(self, signal: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Every token of a batch: (B, T, width) -> is_concept (B, T), state after `lengths`."""
        state = self.start(signal)
        steps = []
        for t in range(signal.shape[1]):
            is_concept, new = self.step(signal[:, t], state)
            inside = None if lengths is None else (t < lengths)[:, None]
            state = new if inside is None else torch.where(inside, new, state)
            steps.append(is_concept)
        return torch.stack(steps, 1), state

    @torch.no_grad()
    def observe(self, signal: Tensor, is_concept: Tensor) -> None:
        """Move the threshold towards the target rate: (N, width), (N,)."""

    def follow(self, target: Tensor) -> None:
        """Move the threshold a tenth of the way to `target`; all of it the first time."""
        share = 0.1 if int(self.seen) else 1.0
        self.threshold += share * (target.to(self.threshold) - self.threshold)
        self.seen += 1

    def gain(self, signal: Tensor) -> Tensor | None:
        """A factor of value 1 that carries gradient to the rule, (B, T, 1), or None."""
        return None


class Fixed(Boundary):
    """Fixed N -> M: of every N tokens M are concepts, evenly spread; M / N is near rho.

    Gist tokens (arXiv:2304.08467) and fixed-stride baselines.
    """

    def __init__(self, rho: float) -> None:
        super().__init__(rho)
        ratio = Fraction(rho).limit_denominator(64)
        self.m, self.n = max(ratio.numerator, 1), max(ratio.denominator, 1)

    def signal(self, model: Any, h: Tensor, probe: Any = None) -> Tensor:
        """Nothing is read."""
        return h.new_zeros(*h.shape[:2], 1)

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Count to N."""
        t = state[:, 0]
        fires = ((t + 1) * self.m // self.n) > (t * self.m // self.n)
        return fires, ((t + 1) % self.n)[:, None]


class Accumulate(Boundary):
    """Sum + threshold: weights add up along time and a concept fires when the sum is full.

    Continuous integrate-and-fire (Dong and Xu, arXiv:1905.11235): alpha_t = sigmoid(w h_t + b).
    """

    def __init__(self, rho: float, d: int) -> None:
        super().__init__(rho)
        self.alpha = nn.Linear(d, 1)
        nn.init.normal_(self.alpha.weight, std=1 / d**0.5)
        nn.init.zeros_(self.alpha.bias)
        self.threshold.fill_(0.5 / rho)

    def signal(self, model: Any, h: Tensor, probe: Any = None) -> Tensor:
        """alpha_t."""
        alpha: Tensor = self.alpha(F.rms_norm(h, (h.shape[-1],))).sigmoid()
        return alpha

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Fire when the sum reaches the threshold, and keep the rest."""
        total = state[:, 0] + s[:, 0]
        fires = total >= self.threshold
        return fires, torch.where(fires, total - self.threshold, total)[:, None]

    def observe(self, signal: Tensor, is_concept: Tensor) -> None:
        """mean(alpha) / threshold is the rate."""
        self.follow(signal.mean() / self.rho)

    def gain(self, signal: Tensor) -> Tensor | None:
        """1 + alpha - stopgrad(alpha)."""
        return 1 + signal - signal.detach()


class Quantile(Boundary):
    """A concept wherever one number lies above its running quantile."""

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compare."""
        return s[:, 0] > self.threshold, state

    def observe(self, signal: Tensor, is_concept: Tensor) -> None:
        """Follow the quantile 1 - rho."""
        self.follow(torch.quantile(signal[:, 0].float(), 1 - self.rho))


class Similarity(Quantile):
    """H-Net's boundary (arXiv:2507.07955): p = (1 - cos(h_t, h_{t-1})) / 2 above a threshold."""

    def __init__(self, rho: float, d: int) -> None:
        super().__init__(rho)
        self.width = self.memory = d

    def signal(self, model: Any, h: Tensor, probe: Any = None) -> Tensor:
        """Unit vectors; H-Net's projections start as the identity."""
        return F.normalize(h, dim=-1)

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Half of one minus the cosine between neighbours."""
        return (1 - (s * state).sum(-1)) / 2 > self.threshold, s

    def observe(self, signal: Tensor, is_concept: Tensor) -> None:
        """Neighbours in a flattened batch; the seams between rows are too few to matter."""
        p = (1 - (signal[1:] * signal[:-1]).sum(-1)) / 2
        super().observe(p[:, None], is_concept)


class Autoregressive(Quantile):
    """Whole-LLM autoregressive: where the model itself, without concepts, is unsure what follows.

    The entropy of the next token under shallow and deep layers alone (BLT's rule,
    arXiv:2412.09871, with the model as its own byte model). Costs one more deep pass a token.
    """

    def signal(self, model: Any, h: Tensor, probe: Any = None) -> Tensor:
        """H(x_{t+1} | x_<=t), nats."""
        start, mask = 0, None
        if probe is not None:
            start = int(probe.lengths.min())
            ragged = int(probe.lengths.max()) != start
            places = probe.lengths[:, None] if ragged else torch.tensor([[start]])
            mask = probe.open(h.shape[1], h.device)
        else:
            places = torch.tensor([[0]])
        positions = (places + torch.arange(h.shape[1])).to(h.device)
        with torch.no_grad():
            out = model.run_layers(model.deep, h, positions, mask, probe)
            p = model.read_out(out).softmax(-1)
        return entropy(p)[..., None]


class MultiToken(Boundary):
    """Multi-token prediction with an entropy stop: a segment runs while its end can be foreseen.

    At a boundary, heads k = 1..horizon predict x_{t+k}; the segment ends at the first k whose
    entropy exceeds the threshold.
    """

    def __init__(self, rho: float, d: int, horizon: int = 8) -> None:
        super().__init__(rho)
        self.width = horizon
        heads = [nn.Linear(d, d, bias=False) for _ in range(horizon)]
        for head in heads:
            nn.init.eye_(head.weight)
        self.heads = nn.ModuleList(heads)
        self.threshold.fill_(3.0)

    def logits(self, model: Any, h: Tensor) -> list[Tensor]:
        """Predictions of x_{t+1} .. x_{t+horizon}: each (B, T, V)."""
        return [model.read_out(head(h)) for head in self.heads]

    def signal(self, model: Any, h: Tensor, probe: Any = None) -> Tensor:
        """Entropies of the predictions, nats."""
        with torch.no_grad():
            return torch.stack([entropy(z.softmax(-1)) for z in self.logits(model, h)], -1)

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Count down to the foreseen end; on reaching it, look ahead again."""
        left = state[:, 0]
        fires = left <= 0
        unsure = s > self.threshold  # (B, horizon)
        foreseen = torch.where(unsure.any(-1), unsure.int().argmax(-1), self.width)
        return fires, torch.where(fires, foreseen.to(left.dtype), left - 1)[:, None]

    def observe(self, signal: Tensor, is_concept: Tensor) -> None:
        """Too many concepts: accept more entropy."""
        self.threshold += 0.5 * (is_concept.float().mean() - self.rho)

    def loss(self, model: Any, h: Tensor, x: Tensor) -> Tensor:
        """sum_k CE(head_k(h_t), x_{t+k}) / horizon; h is not trained by it."""
        losses = [
            F.cross_entropy(z[:, :-k].transpose(1, 2), x[:, k:])
            for k, z in enumerate(self.logits(model, h.detach()), 1)
            if k < x.shape[1]
        ]
        return torch.stack(losses).mean()


def make(name: str, rho: float, d: int) -> Boundary | None:
    """The rule of this name; None for `null`, which the concept head decides."""
    if name == "null":
        return None
    rules: dict[str, Any] = {
        "autoregressive": lambda: Autoregressive(rho),
        "accumulate": lambda: Accumulate(rho, d),
        "fixed": lambda: Fixed(rho),
        "multi_token": lambda: MultiToken(rho, d),
        "similarity": lambda: Similarity(rho, d),
    }
    rule: Boundary = rules[name]()
    return rule

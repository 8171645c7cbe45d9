"""Boundary rules, which place concepts: the notes' five, and H-Net's beside them.

A rule reads the shallow hidden states in parallel (`signal`), then walks along time with a small
state (`step`). The packed pass and the decoder take the same steps, so they agree by construction.
Where a rule needs a threshold, `observe` moves it so that a share rho of positions are concepts.
"""

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..kit.precision import at_least_single, unrounded
from .head import Threshold, entropy


class Boundary(Threshold):
    """Base of the rules that do not use NULL.

    A signal has `width` numbers a token, as each rule says; the state has `memory` a row.
    """

    memory = 1

    def __init__(self, rho: float, d: int = 0) -> None:
        super().__init__()
        self.rho = rho

    def signal(self, model: Any, h: Tensor, x: Tensor, probe: Any = None) -> Tensor:
        r"""The rule's input: (B, T, d), ids (B, T) -> (B, T, width). `probe` caches decoding.

        A rule may read the past and the token itself, nothing later; this one reads nothing: 0.

        Equation: $s_t = \mathrm{signal}(h_1, \dots, h_t, x_t) = 0$
        """
        return h.new_zeros(*h.shape[:2], 1)

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        r"""One token of each row: (B, width), (B, memory) -> is_concept (B,), new state.

        Equation: $(c_t, \mathrm{state}_t) = \mathrm{step}(s_t, \mathrm{state}_{t - 1}), \quad
        c_t \in \{0, 1\}$
        """
        raise NotImplementedError

    @torch.no_grad()
    def packed(
        self, signal: Tensor, lengths: Tensor | None = None, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Every token of a batch: (B, T, width) -> is_concept (B, T), state after `lengths`.

        The state (B, memory) is 0 before the first token; past the n tokens of a row it stays as it
        is.

        Equation: $(c_t, \mathrm{state}_t) = \mathrm{step}(s_t, \mathrm{state}_{t - 1})
        \;\mathrm{for}\; t \le n$
        """
        state = signal.new_zeros(len(signal), self.memory) if state is None else state
        steps = []
        for t in range(signal.shape[1]):
            is_concept, new = self.step(signal[:, t], state)
            state = new if lengths is None else torch.where((t < lengths)[:, None], new, state)
            steps.append(is_concept)
        return torch.stack(steps, 1), state

    @torch.no_grad()
    def observe(self, signal: Tensor, is_concept: Tensor) -> None:
        r"""Move the threshold towards the target rate: (N, width), (N,).

        This one has no threshold to move.

        Equation: $\mathbb{E}[c_t] \to \rho$
        """

    def gain(self, signal: Tensor) -> Tensor:
        r"""A factor of value 1 that carries gradient to the rule: (B, T, width) -> (B, T, 1).

        This one has nothing to learn from it.

        Equation: $e_t \leftarrow g_t e_t, \quad g_t = 1$
        """
        return torch.ones_like(signal[..., :1])

    def loss(self, model: Any, output: Any, x: Tensor) -> Tensor:
        r"""The rule's term in the loss of a batch (B, T): a scalar, here 0.

        Equation: $L_{rule} = 0$
        """
        return x.new_zeros((), dtype=torch.float32)


class Fixed(Boundary):
    """Fixed N -> M: of every N tokens M are concepts, evenly spread; M / N is near rho.

    Gist tokens (arXiv:2304.08467) and fixed-stride baselines.
    """

    def __init__(self, rho: float, d: int = 0) -> None:
        super().__init__(rho)
        ratio = Fraction(rho).limit_denominator(64)
        self.m, self.n = max(ratio.numerator, 1), max(ratio.denominator, 1)

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        r"""Count to N: (B, 1), (B, 1) -> is_concept (B,), the count (B, 1).

        Equation: $c_t = [\, \lfloor (t + 1) M / N \rfloor > \lfloor t M / N \rfloor \,], \quad
        t \leftarrow (t + 1) \bmod N$
        """
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

    def signal(self, model: Any, h: Tensor, x: Tensor, probe: Any = None) -> Tensor:
        r"""alpha_t in (0, 1): (B, T, d) -> (B, T, 1).

        Equation: $\alpha_t = \sigma(w \cdot h_t / \mathrm{rms}(h_t) + b)$
        """
        alpha: Tensor = unrounded(self.alpha, F.rms_norm(h, (h.shape[-1],))).sigmoid()
        return alpha

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        r"""Fire when the sum reaches the threshold, keep the rest: (B, 1), (B, 1) -> (B,), (B, 1).

        Equation: $a_t = a_{t - 1} + \alpha_t - \theta c_t, \quad
        c_t = [\, a_{t - 1} + \alpha_t \ge \theta \,]$
        """
        total = state[:, 0] + s[:, 0]
        fires = total >= self.threshold
        return fires, torch.where(fires, total - self.threshold, total)[:, None]

    def observe(self, signal: Tensor, is_concept: Tensor) -> None:
        r"""mean(alpha) / threshold is the rate: (N, 1), (N,).

        Equation: $\theta^* = \bar \alpha / \rho$
        """
        self.follow(signal.mean() / self.rho)

    def gain(self, signal: Tensor) -> Tensor:
        r"""1 + alpha - stopgrad(alpha): (B, T, 1) -> (B, T, 1).

        Equation: $g_t = 1 + \alpha_t - \mathrm{sg}(\alpha_t)$
        """
        return 1 + signal - signal.detach()


class HNet(Boundary):
    """H-Net's boundary (arXiv:2507.07955): learnt projections, ratio loss, smoothing.

    p_t = (1 - cos(W_q h_t, W_k h_{t-1})) / 2 at or above a half, p_1 = 1. A chosen embedding
    carries p's gradient straight through; what the middle layers return is smoothed by p.
    """

    def __init__(self, rho: float, d: int) -> None:
        super().__init__(rho)
        self.memory = d + 1
        self.query, self.key = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        nn.init.eye_(self.query.weight)
        nn.init.eye_(self.key.weight)

    def signal(self, model: Any, h: Tensor, x: Tensor, probe: Any = None) -> Tensor:
        r"""Unit queries and keys: (B, T, d) -> (B, T, 2 d).

        Equation: $s_t = (W_q h_t / \lVert W_q h_t \rVert, W_k h_t / \lVert W_k h_t \rVert)$
        """
        parts = [F.normalize(unrounded(part, h), dim=-1) for part in (self.query, self.key)]
        return torch.cat(parts, -1)

    def share(self, signal: Tensor) -> Tensor:
        r"""p of every token: (B, T, 2 d) -> (B, T).

        Equation: $p_t = \frac{1}{2} (1 - \cos(W_q h_t, W_k h_{t - 1})), \quad p_1 = 1$
        """
        q, k = signal.chunk(2, -1)
        p = (1 - (q[:, 1:] * k[:, :-1]).sum(-1)) / 2
        return F.pad(p, (1, 0), value=1.0)

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        r"""Compare with the key before: (B, 2 d), (B, d + 1) -> (B,), the key and p (B, d + 1).

        Equation: $c_t = [\, p_t \ge \frac{1}{2} \,]$
        """
        q, k = s.chunk(2, -1)
        before = state[:, :-1]
        first = (before == 0).all(-1)
        p = torch.where(first, 1.0, (1 - (q * before).sum(-1)) / 2)
        return p >= 0.5, torch.cat([k, p[:, None]], -1)

    def gain(self, signal: Tensor) -> Tensor:
        r"""1 + p - stopgrad(p): (B, T, 2 d) -> (B, T, 1).

        Equation: $g_t = 1 + p_t - \mathrm{sg}(p_t)$
        """
        p = self.share(signal)[..., None]
        return 1 + p - p.detach()

    def loss(self, model: Any, output: Any, x: Tensor) -> Tensor:
        r"""The ratio loss, least where a share 1 / N of tokens are boundaries: scalar.

        Equation: $0.03 \, \frac{N}{N - 1} ((N - 1) F G + (1 - F) (1 - G)), \quad
        F = \bar c, \; G = \bar p$
        """
        N = 1 / self.rho
        chosen: Tensor = output.routing.chosen.float().mean()
        p = self.share(output.routing.signal).mean()
        return 0.03 * N / (N - 1) * ((N - 1) * chosen * p + (1 - chosen) * (1 - p))

    @staticmethod
    def smooth(m: Tensor, p: Tensor, before: Tensor) -> Tensor:
        r"""Running mean over concepts: (B, C, d), (B, C), what came before (B, d) -> (B, C, d).

        Equation: $\bar m_j = p_j m_j + (1 - p_j) \bar m_{j - 1}$
        """
        out = []
        for j in range(m.shape[1]):
            before = p[:, j, None] * m[:, j] + (1 - p[:, j, None]) * before
            out.append(before)
        return torch.stack(out, 1)


class Autoregressive(Boundary):
    """Whole-LLM autoregressive: where the model itself, without concepts, is unsure what follows.

    The entropy of the next token under shallow and deep layers alone (BLT's rule,
    arXiv:2412.09871, with the model as its own byte model). Costs one more deep pass a token.
    """

    def signal(self, model: Any, h: Tensor, x: Tensor, probe: Any = None) -> Tensor:
        r"""H(x_{t+1} | x_<=t), nats: (B, T, d) -> (B, T, 1).

        Equation: $s_t = -\sum_v p_{tv} \log p_{tv}, \quad
        p_t = \mathrm{softmax}(W \, \mathrm{norm}(\mathrm{Deep}(h_{\le t})))$
        """
        with torch.no_grad():
            out = model.run_layers(model.deep, h, cache=probe)
            p = at_least_single(model.read_out(out)).softmax(-1)
        return entropy(p)[..., None]

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        r"""Compare: (B, 1), (B, memory) -> is_concept (B,), the state untouched.

        Equation: $c_t = [\, s_t > \theta \,]$
        """
        return s[:, 0] > self.threshold, state

    def observe(self, signal: Tensor, is_concept: Tensor) -> None:
        r"""Follow the quantile 1 - rho: (N, 1), (N,).

        Equation: $\theta^* = Q_{1 - \rho}(s)$
        """
        self.follow(torch.quantile(signal[:, 0].float(), 1 - self.rho))


class MultiToken(Boundary):
    """Multi-token prediction with an entropy stop: a segment runs while its end can be foreseen.

    At a boundary, heads k = 1..horizon predict x_{t+k}; the segment ends at the first k whose
    entropy exceeds the threshold.
    """

    def __init__(self, rho: float, d: int, horizon: int = 8) -> None:
        super().__init__(rho)
        self.horizon = horizon
        self.heads = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(horizon))
        for weight in self.heads.parameters():
            nn.init.eye_(weight)
        self.threshold.fill_(3.0)

    def logits(self, model: Any, h: Tensor) -> list[Tensor]:
        r"""Predictions of x_{t+1} .. x_{t+horizon}: (B, T, d) -> horizon times (B, T, V).

        Equation: $\mathrm{logits}^k_t = W \, \mathrm{norm}(A_k h_t)$
        """
        return [model.read_out(head(h)) for head in self.heads]

    def signal(self, model: Any, h: Tensor, x: Tensor, probe: Any = None) -> Tensor:
        r"""Entropies of the predictions, nats: (B, T, d) -> (B, T, horizon).

        Equation: $s_{tk} = H(\mathrm{softmax}(\mathrm{logits}^k_t))$
        """
        with torch.no_grad():
            logits = [at_least_single(z) for z in self.logits(model, h)]
            return torch.stack([entropy(z.softmax(-1)) for z in logits], -1)

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        r"""Count down to the foreseen end; on reaching it, look ahead again.

        (B, horizon), (B, 1) -> is_concept (B,), the tokens left (B, 1). Where no entropy exceeds
        the threshold all of the horizon is foreseen, and the minimum is horizon + 1.

        Equation: $l_t = c_t \, (\min \{k : s_{tk} > \theta\} - 1)
        + (1 - c_t) (l_{t - 1} - 1), \quad c_t = [\, l_{t - 1} \le 0 \,]$
        """
        left = state[:, 0]
        fires = left <= 0
        unsure = s > self.threshold  # (B, horizon)
        foreseen = torch.where(unsure.any(-1), unsure.int().argmax(-1), self.horizon)
        return fires, torch.where(fires, foreseen.to(left.dtype), left - 1)[:, None]

    def observe(self, signal: Tensor, is_concept: Tensor) -> None:
        r"""Too many concepts: accept more entropy; (N, horizon), (N,).

        Equation: $\theta \leftarrow \theta + \frac{1}{2} (\bar c - \rho)$
        """
        self.threshold += 0.5 * (is_concept.float().mean() - self.rho)

    def loss(self, model: Any, output: Any, x: Tensor) -> Tensor:
        r"""A tenth of the heads' cross entropy, which does not train h (B, T, d): scalar nats.

        Equation: $L = -\frac{0.1}{n} \sum_{k = 1}^{n} \operatorname{mean}_{t \le T - k} \log
        p_k(x_{t + k} \mid h_t), \quad n = \min(\mathrm{horizon}, T - 1)$
        """
        losses = [
            F.cross_entropy(z[:, :-k].transpose(1, 2), x[:, k:])
            for k, z in enumerate(self.logits(model, output.h.detach()), 1)
            if k < x.shape[1]
        ]
        return 0.1 * torch.stack(losses).mean()


RULES: dict[str, type[Boundary]] = {
    "autoregressive": Autoregressive,
    "accumulate": Accumulate,
    "fixed": Fixed,
    "multi_token": MultiToken,
    "hnet": HNet,
}

"""Rules of where a concept stands, and those that count, add up or look at letters.

A rule reads the shallow hidden states in parallel (`signal`), then walks along time with a small
state (`step`). The packed pass and the decoder take the same steps, so they agree by construction.
Where a rule needs a threshold, `observe` moves it so that a share rho of positions are concepts.
"""

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..kit.precision import unrounded
from .head import Threshold


class Boundary(Threshold):
    """Base of the rules that do not use NULL.

    A signal has `width` numbers a token, as each rule says; the state has `memory` a row.
    """

    memory = 1

    def __init__(self, rho: float, d: int = 0) -> None:
        super().__init__()
        self.rho = rho

    def signal(self, model: Any, h: Tensor, x: Tensor, probe: Any = None) -> Tensor:
        r"""What the rule reads: (B, T, d), ids (B, T) -> (B, T, width). `probe` caches decoding.

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
        r"""What the rule adds to the loss of a batch (B, T): a scalar, here nothing.

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


class Words(Boundary):
    """A concept at each end of a word, as SpaceByte (arXiv:2404.14408) places its large blocks.

    The token itself decides and the one before it: space-like after word-like. Ids are bytes;
    letters, digits and the bytes of multi-byte characters are word-like. Nothing is learnt, and
    the text sets the rate.
    """

    def signal(self, model: Any, h: Tensor, x: Tensor, probe: Any = None) -> Tensor:
        r"""Whether each byte is word-like: (B, T, d), (B, T) -> (B, T, 1).

        Equation: $w_t = [\, x_t \in \{\mathrm{0..9, A..Z, a..z}\} \vee x_t \ge 128 \,]$
        """
        lower = x | 32
        word = ((x >= 48) & (x < 58)) | ((lower >= 97) & (lower < 123)) | (x >= 128)
        return word[..., None].to(h.dtype)

    def step(self, s: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        r"""A word has just ended: (B, 1), (B, 1) -> is_concept (B,), w_t (B, 1).

        Equation: $c_t = w_{t - 1} \wedge \neg w_t$
        """
        return (state[:, 0] > 0) & (s[:, 0] == 0), s

"""The prompt, and its tokens on their way through the layers."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from methods.token_pruning.choice import take
from methods.token_pruning.llava import MIN_MASK

IGNORE = -100


@dataclass(frozen=True)
class Prompt:
    """What is read.

    `ids` (B, T) with N placeholders an image; `pixels` (images, 3, side, side) in the order of the
    rows, None for words alone; `mask` (B, T) bool, False for padding, which stands on the left
    wherever an answer is to follow; `asked` (B, T) bool, the words
    that choices may look at, all but image and answers; `targets` (B, T), what is to be predicted
    at each place, or IGNORE; `needed` (B, 2) for the oracle.
    """

    ids: Tensor
    pixels: Tensor | None = None
    mask: Tensor | None = None
    asked: Tensor | None = None
    targets: Tensor | None = None
    needed: Tensor | None = None

    def real(self) -> Tensor:
        r"""What is no padding (B, T). Equation: $r_{bt} = m_{bt}$, all True without a mask m."""
        mask = torch.ones_like(self.ids) if self.mask is None else self.mask
        return mask.bool()  # a processor's attention_mask holds integers

    def each(self, change: Callable[[Tensor], Tensor]) -> "Prompt":
        r"""Every part that is there, changed. Equation: $y_i = f(x_i)$, f being `change`."""
        made = {name: change(part) for name, part in vars(self).items() if part is not None}
        return replace(self, **made)


@dataclass
class Stream:
    """Tokens on their way: all (B, n, ...). `patch` is -1 for words; `gate` is a bias on keys."""

    hidden: Tensor
    positions: Tensor
    visual: Tensor
    valid: Tensor
    asked: Tensor
    targets: Tensor
    patch: Tensor
    gate: Tensor | None = None

    def gather(self, index: Tensor) -> "Stream":
        r"""The tokens at i (B, k), in every field x. Equation: $y_{bj} = x_{b, i_{bj}}$"""
        flags = {name: x for name, x in vars(self).items() if name != "hidden" and x is not None}
        moved = {name: x.gather(1, index) for name, x in flags.items()}
        return Stream(take(self.hidden, index), **moved)

    def places(self) -> Tensor:
        r"""Visual places (B, n_v). Equation: $\{ p_{b0} < p_{b1} < \ldots \} = \{ t : v_{bt} \}$"""
        return self.visual.nonzero()[:, 1].view(len(self.visual), -1)

    def seen(self) -> Tensor:
        r"""Hidden states of the visual tokens (B, n_v, d). Equation: $y_{bj} = h_{b, p_{bj}}$"""
        return take(self.hidden, self.places())

    def words(self) -> tuple[Tensor, Tensor]:
        r"""Hidden states of all words (B, t, d) and which belong to the question (B, t).

        Equation: $y_{bj} = h_{b, w_{bj}}, \quad \{ w_{b0} < w_{b1} < \ldots \} =
        \{ t : \neg v_{bt} \}$
        """
        places = (~self.visual).nonzero()[:, 1].view(len(self.visual), -1)
        return take(self.hidden, places), self.asked.gather(1, places)

    def keep_visual(self, index: Tensor) -> "Stream":
        r"""Drop visual tokens but those at i (B, k) among them.

        Equation: $y_{bj} = x_{b, t_{bj}}, \quad \{ t_{b0} < t_{b1} < \ldots \} =
        \{ t : \neg v_{bt} \} \cup \{ p_{b, i_{bj}} \}_j$
        """
        kept = (~self.visual).scatter(1, self.places().gather(1, index), True)
        return self.gather(kept.nonzero()[:, 1].view(len(kept), -1))

    def allowed(self) -> Tensor:
        r"""Who may look at whom (B, n, n): backwards, at what is no padding; each at itself.

        Equation: $a_{bij} = (j \le i \wedge r_{bj}) \vee j = i$ with r = `valid`
        """
        n = self.valid.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool, device=self.valid.device).tril()
        self_only = torch.eye(n, dtype=torch.bool, device=self.valid.device)
        return causal & self.valid[:, None] | self_only  # padding sees itself: no empty row

    def on_keys(self) -> Tensor | None:
        r"""What the next token's attention adds for each key (B, n); None if nothing.

        Equation: $b_{bj} = g_{bj} + \mu\, [\, \neg r_{bj} \,]$ with r = `valid` and mu the least
        float32
        """
        if self.gate is None and bool(self.valid.all()):
            return None
        mask = torch.where(self.valid, 0.0, MIN_MASK)
        return mask if self.gate is None else mask + self.gate

    def bias(self) -> Tensor | None:
        r"""The mask of causal attention with padding and gates: (B, 1, n, n); None if plain.

        Equation: $B_{bij} = g_{bj} + \mu\, [\, \neg ((j \le i \wedge r_{bj}) \vee j = i) \,]$
        with r = `valid` and mu the least float32
        """
        if self.gate is None and bool(self.valid.all()):
            return None
        allowed = self.allowed()
        mask = torch.where(allowed, 0.0, MIN_MASK)[:, None]
        return fitting(mask if self.gate is None else mask + self.gate[:, None, None], self.hidden)


def fitting(mask: Tensor, hidden: Tensor) -> Tensor:
    r"""A mask (B, ...) in the type of `hidden`, in which the least float32 would be infinite.

    Equation: $y = \max(x, \mu)$, mu the least number of that type
    """
    least = max(torch.finfo(hidden.dtype).min, MIN_MASK)  # float64 would hold less than a mask can
    return mask.clamp_min(least).to(hidden.dtype)

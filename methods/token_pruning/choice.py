"""What a choice of visual tokens may look at, and what it gives: `select(context, k) -> indices`.

Indices are (B, k), rising. A choice that also merges what it does not keep gives the tokens as
well, `Entered`. All read only the context: before the language model, or the hidden states before
one of its layers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..errors import InputError
from .llava import Vision
from .relax import check_budget


def no_attention(*_: object) -> Tensor:
    r"""The attention (B, n) of a layer where none has attended. Equation: $\varnothing$

    Raises:
        InputError: always.
    """
    raise InputError("this choice reads a layer's attention, and before layer 0 there is none")


@dataclass(frozen=True)
class Context:
    """What a choice may look at.

    `look` gives `visual` (B, n, d), projected features or hidden states; `patches` (B, n) says
    which patch each comes from; `text` (B, t, d) and `asked` (B, t) bool are the question; `vision`
    is the tower's view of all N patches; `attention` gives (B, n), the last token's attention in
    the layer before, and `ahead` that in the layer to come, of the last token or of words by their
    weights (B, t); `needed` (B, 2) are the patch asked about and the one with the answer, on scenes
    that know them.
    """

    look: Callable[[], Tensor]
    patches: Tensor
    text: Tensor
    asked: Tensor
    vision: Vision
    attention: Callable[[], Tensor] = no_attention
    ahead: Callable[[Tensor | None], Tensor] = no_attention
    generator: torch.Generator | None = None
    needed: Tensor | None = None

    @cached_property
    def visual(self) -> Tensor:
        r"""What there is to choose from, computed on first use: (B, n, d).

        Equation: $x_i = \mathrm{projector}(v_i) \;\mathrm{before\ the\ model}, \quad
        x_i = h_{p_i} \;\mathrm{inside}$

        v_i is a patch's features, p_i where visual token i stands among the hidden states h.
        """
        return self.look()

    def noise(self) -> Tensor:
        r"""Uniform noise (B, n) from the run's generator.

        Equation: $u_{bi} \sim U(0, 1)$
        """
        return torch.rand(self.patches.shape, generator=self.generator).to(self.patches.device)


@dataclass(frozen=True)
class Entered:
    """Visual tokens that enter the language model.

    `features` (B, k, d_vision) before the projector; `index` (B, k); `bias` (B, k) on the keys or
    None.
    """

    features: Tensor
    index: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Selector:
    """A way to choose; `before` and `inside` say where it can stand."""

    label: str
    choose: Callable[[Context, int], Tensor | Entered]
    before: bool = True
    inside: bool = True

    def select(self, context: Context, k: int) -> Tensor:
        r"""Which tokens stay, (B, k) in rising order.

        Equation: $i_{b0} < i_{b1} < \ldots < i_{b, k - 1}$

        Raises:
            InputError: for a budget above the tokens.
        """
        check_budget(k, context.patches.shape[1])
        found = self.choose(context, k)
        return found.index if isinstance(found, Entered) else found

    def enter(self, context: Context, k: int) -> Entered:
        r"""Choose before the language model, merging where the method merges.

        Equation: $x_{bj} = v_{b, i_{bj}} \;\mathrm{where\ it\ does\ not}$, i (B, k) the choice

        Raises:
            InputError: for a budget above the tokens.
        """
        check_budget(k, context.vision.features.shape[1])
        found = self.choose(context, k)
        if isinstance(found, Entered):
            return found
        return Entered(take(context.vision.features, found), found)


def take(x: Tensor, index: Tensor) -> Tensor:
    r"""Rows of x (B, n, d) at i (B, k): (B, k, d).

    Equation: $y_{bj} = x_{b, i_{bj}}$
    """
    return x.gather(1, wide(index, x))


def wide(index: Tensor, x: Tensor) -> Tensor:
    r"""Places (B, k) for gathering whole vectors of (B, n, d): (B, k, d).

    Equation: $y_{bjc} = i_{bj}, \quad 0 \le c < d$
    """
    return index[..., None].expand(-1, -1, x.shape[-1])

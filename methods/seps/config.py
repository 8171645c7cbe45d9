"""What a slimming model is made of, checked before any work starts."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from methods.errors import InputError

Variant = Literal["open_source", "paper"]
Relaxation = Literal["softmax", "gumbel_sigmoid"]
Owner = Literal["caption", "image"]
CHOICES = {
    "variant": get_args(Variant),
    "relaxation": get_args(Relaxation),
    "dense_of": get_args(Owner),
}


MENDED: dict[str, Any] = {"relaxation": "gumbel_sigmoid", "gate": True, "idle_biases": False}


class SepsError(InputError):
    """A model, checkpoint or input cannot be used as asked; the message says what to change."""


@dataclass(frozen=True)
class SepsConfig:
    """The shape of a slimming model and which of the source's faults are mended.

    The defaults of `relaxation`, `gate`, `idle_biases` and `dense_of` are the source's; `mended`
    changes the first three.

    Raises:
        SepsError: for values that no model can have.
    """

    dim: int = 512  # C, width of patches and words
    patches: int = 196  # N, without CLS
    keep: float = 0.5  # rho, share of the patches that stay
    aggregate: float = 0.4  # aggregated tokens for each patch that stays
    variant: Variant = "paper"
    dense: bool = True  # a second, longer text steers (paper) or is matched (open_source)
    relaxation: Relaxation = "softmax"  # what stands for the hard choice in the backward pass
    gate: bool = False  # whether the choice multiplies the patches, so that it can be learnt
    idle_biases: bool = True  # the two biases that every loss here is blind to
    dense_of: Owner = "caption"  # whose dense text a pair uses: the caption's or the image's
    beta: float = 0.25  # weight of the guides in the score
    temperature: float = 0.05  # of the keep-or-drop draw of gumbel_sigmoid
    margin: float = 0.2  # alpha of the alignment loss
    top: int = 5  # k, the strongest matches that the relevance MLP reads
    ratio_weight: float = 2.0  # of the ratio loss

    def __post_init__(self) -> None:
        for name, least in (("dim", 5), ("patches", 1), ("top", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise SepsError(
                    f"{name} is {value!r}; a whole number of at least {least} is needed"
                )
        for name in ("keep", "aggregate"):
            if not 0 < getattr(self, name) <= 1:
                raise SepsError(f"{name} is {getattr(self, name)}; a share lies in (0, 1]")
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise SepsError(
                    f"{name} is {getattr(self, name)!r}; choose from {', '.join(known)}"
                )
        if not 0 <= self.beta <= 0.5:
            raise SepsError(f"beta is {self.beta}; the weight of a guide lies in [0, 0.5]")
        for name in ("temperature", "margin", "ratio_weight"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise SepsError(f"{name} is {getattr(self, name)}; it must be positive and finite")
        if self.aggregated < 1:
            raise SepsError(
                f"{self.patches} patches x keep {self.keep} x aggregate {self.aggregate} leaves no "
                "aggregated token; raise one of them"
            )
        if self.variant == "open_source" and (self.gate or self.relaxation != "softmax"):
            raise SepsError("open_source has no score to learn: gate and relaxation are for paper")
        if self.variant == "open_source" and self.dense_of == "image":
            raise SepsError("open_source matches the dense text itself: it must be the caption's")

    @property
    def kept(self) -> int:
        """K: patches that stay, ceil(rho N)."""
        return math.ceil(self.keep * self.patches)

    @property
    def aggregated(self) -> int:
        """N_c: tokens that the patches are merged into, int(N * aggregate * keep)."""
        return int(self.patches * self.aggregate * self.keep)

    @property
    def branches(self) -> int:
        """Texts that choose patches: the sparse one, and the dense one where there is one."""
        return 2 if self.dense else 1

    def as_dict(self) -> dict[str, Any]:
        """The configuration as plain values, for a checkpoint."""
        return asdict(self)


def mended(**changes: Any) -> SepsConfig:
    """The paper's variant with a choice of patches that can be learnt."""
    return SepsConfig(**(MENDED | changes))

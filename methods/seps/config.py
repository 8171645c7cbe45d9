"""The configuration of a slimming model, checked before any work starts."""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from ..kit.config import PositiveShare, configuration

MENDED: dict[str, Any] = {"relaxation": "gumbel_sigmoid", "gate": True, "idle_biases": False}


@configuration
class SepsConfig:
    """The shape of a slimming model, and which of the source's faults are mended.

    The defaults of `relaxation`, `gate`, `idle_biases` and `dense_of` are the source's; `mended`
    changes the first three. That of `cosine` is ours.

    Raises:
        InputError: for values that no model can have.
    """

    dim: Annotated[int, Field(ge=5)] = 512  # C, width of patches and words
    patches: PositiveInt = 196  # N, without CLS
    cls: bool = True  # whether a CLS precedes the patches, as in a ViT; a Swin has none
    keep: PositiveShare = 0.5  # rho, share of the patches that stay
    aggregate: PositiveShare = 0.4  # aggregated tokens for each patch that stays
    variant: Literal["open_source", "paper"] = "paper"
    dense: bool = True  # a second, longer text steers (paper) or is matched (open_source)
    # What stands for the hard choice in the backward pass.
    relaxation: Literal["softmax", "gumbel_sigmoid"] = "softmax"
    gate: bool = False  # whether the choice multiplies the patches, so that it can be learnt
    idle_biases: bool = True  # the two biases that no loss here depends on
    # Whose dense text a pair uses: the caption's or the image's.
    dense_of: Literal["caption", "image"] = "caption"
    # Guides of equation 2: cosines, or the source's products over C, by which long patches win.
    cosine: bool = True
    beta: Annotated[float, Field(ge=0, le=0.5)] = 0.25  # weight of the guides in the score
    temperature: PositiveFloat = 0.05  # of the keep-or-drop draw of gumbel_sigmoid
    margin: PositiveFloat = 0.2  # alpha of the alignment loss
    top: PositiveInt = 5  # k, the strongest matches that the relevance MLP reads
    ratio_weight: PositiveFloat = 2.0  # of the ratio loss
    lam: PositiveShare | None = None  # lambda of each branch in the ratio loss; None: they share 1

    def __post_init__(self) -> None:
        if self.aggregated < 1:
            raise ValueError(
                f"{self.patches} patches x keep {self.keep} x aggregate {self.aggregate} leaves no "
                "aggregated token; raise one of them"
            )
        if self.variant == "open_source" and (self.gate or self.relaxation != "softmax"):
            raise ValueError("open_source has no score to learn: gate and relaxation are for paper")
        if self.variant == "open_source" and not self.cosine:
            raise ValueError("open_source has cosines as its guides: cosine=False is for paper")
        if self.variant == "open_source" and self.dense_of == "image":
            raise ValueError("open_source matches the dense text itself: it must be the caption's")

    @property
    def kept(self) -> int:
        """K: patches that stay, ceil(rho N)."""
        return math.ceil(self.keep * self.patches)

    @property
    def aggregated(self) -> int:
        """N_c: tokens that the patches are merged into, int(N * aggregate * keep)."""
        return int(self.patches * self.aggregate * self.keep)


def mended(**changes: Any) -> SepsConfig:
    """The paper's variant with a choice of patches that can be learnt."""
    return SepsConfig(**(MENDED | changes))

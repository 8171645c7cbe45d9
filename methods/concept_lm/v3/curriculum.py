"""How v3 is trained: what is set, and what changes over the course."""

from dataclasses import dataclass
from typing import Literal

from methods.concept_lm.config import ConceptError


@dataclass(frozen=True)
class Curriculum:
    """Warm-up, then Hard-EM.

    Raises:
        ConceptError: for shares outside [0, 1], no steps, or another way than the two.
    """

    warm_up: int = 900  # steps of the autoencoder on fresh data; 0 is naive
    through: Literal["text", "prompt", "elbo"] = "text"  # what plans are made of: y by q, or u
    steps: int = 500  # steps of Hard-EM
    warm_up_drop: float = 0.7  # share of y hidden from the executor in warm-up
    cool: float = 0.2  # temperature at which the samples of warm-up end; they begin at 1
    drop: float = 0.2  # and in Hard-EM
    anneal: float = 0.6  # share of Hard-EM over which beta goes from 0 to 1; 0 is beta = 1 at once
    grow: float = 0.0  # share of warm-up over which y grows from a quarter to its full length

    def __post_init__(self) -> None:
        shares = (self.warm_up_drop, self.drop, self.anneal, self.grow)
        if self.warm_up < 0 or self.steps < 1 or not all(0 <= share <= 1 for share in shares):
            raise ConceptError("warm_up and steps are counts, drops and shares lie in [0, 1]")
        if self.through not in ("text", "prompt", "elbo"):
            raise ConceptError(f"through is {self.through!r}; 'text', 'prompt' or 'elbo' is needed")
        if not 0 < self.cool <= 1:
            raise ConceptError(f"cool is {self.cool}; a temperature in (0, 1] is needed")

    @property
    def total(self) -> int:
        """All steps."""
        return self.warm_up + self.steps

    def beta(self, step: int) -> float:
        """Weight of log p(z | u) in the choice of z*, at a step of Hard-EM."""
        if self.anneal == 0:
            return 1.0
        return min(1.0, step / (self.anneal * self.steps))

    def temperature(self, step: int) -> float:
        """Of the straight-through samples in warm-up: 1 down to `cool`."""
        return 1.0 - (1.0 - self.cool) * step / max(1, self.warm_up)

    def length(self, step: int, longest: int) -> int:
        """Tokens of y at a step of warm-up, short to long."""
        if self.grow == 0:
            return longest
        share = min(1.0, 0.25 + 0.75 * step / (self.grow * max(1, self.warm_up)))
        return max(1, round(share * longest))


@dataclass(frozen=True)
class EMSettings:
    """How Hard-EM is run; `naive` turns off all that keeps it from collapsing."""

    samples: int = 2048  # examples whose plans are kept
    batch: int = 128
    every: int = 2  # M: epochs between two choices of an example's plan
    lr: float = 3e-3
    clip: float = 1.0
    usage_bonus: float = 1.0
    plan_drop: float = 0.1  # share of rows that see no plan: the z-free model to compare with
    recogniser: bool = True  # whether q proposes candidates
    seed: int = 0
    held: int = 256  # examples held out to be judged by

    def __post_init__(self) -> None:
        if self.samples < self.batch or self.batch < 2 or self.every < 1 or self.lr <= 0:
            raise ConceptError("samples >= batch >= 2, every >= 1 and lr > 0 are needed")


NAIVE = EMSettings(usage_bonus=0.0, recogniser=False)
NAIVE_CURRICULUM = Curriculum(warm_up=0, drop=0.0, anneal=0.0)

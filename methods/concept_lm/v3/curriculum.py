"""How v3 is trained: what is set, and what changes over the course."""

from typing import Annotated, Literal

from pydantic import Field

from ...kit.config import Count, Part, Positive, Share, Some, configuration


@configuration
class Curriculum:
    """Warm-up, then Hard-EM.

    Raises:
        InputError: for shares outside [0, 1], no steps, or another way than the three.
    """

    warm_up: Count = 900  # steps of the autoencoder on fresh data; 0 is naive
    through: Literal["text", "prompt", "elbo"] = "text"  # what plans are made of: y by q, or u
    steps: Some = 500  # steps of Hard-EM
    warm_up_drop: Share = 0.7  # share of y hidden from the executor in warm-up
    drop: Share = 0.2  # and in Hard-EM
    # Temperature at which the samples of warm-up end; they begin at 1.
    cool: Part = 0.2
    anneal: Share = 0.6  # share of Hard-EM over which beta goes from 0 to 1; 0 is beta = 1 at once
    grow: Share = 0.0  # share of warm-up over which y grows from a quarter to its full length

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


@configuration
class EMSettings:
    """How Hard-EM is run.

    Raises:
        InputError: for values with which nothing would be learnt.
    """

    samples: Some = 2048  # examples whose plans are kept
    batch: Annotated[int, Field(ge=2)] = 128
    every: Some = 2  # M: epochs between two choices of an example's plan
    lr: Positive = 3e-3
    clip: Positive = 1.0
    usage_bonus: float = 1.0
    plan_drop: Share = 0.1  # share of rows that see no plan: the z-free model to compare with
    recogniser: bool = True  # whether q proposes candidates
    beams: Count = 0  # candidates from a diverse beam search of the planner
    seed: int = 0
    held: Some = 256  # examples held out to be judged by

    def __post_init__(self) -> None:
        if self.samples < self.batch:
            raise ValueError(f"samples >= batch is needed, not {self.samples} and {self.batch}")

"""The configuration of a concept language model, validated before any work starts."""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from ..kit.config import configuration

Boundary = Literal["null", "autoregressive", "accumulate", "fixed", "multi_token", "hnet"]


@configuration
class ConceptConfig:
    """The shape of v2: which layers see what, and how concepts are chosen.

    The base's decoder layers are split, in order, into `shallow` (all tokens), `middle` (concepts
    only) and `deep` (concepts, then the tokens since the last one). The rest is by default as in
    the notes: pure cross entropy, global shallow attention, the concept reads out.

    Raises:
        InputError: for values that no model can have.
    """

    shallow: PositiveInt
    middle: NonNegativeInt
    deep: PositiveInt
    n_concepts: PositiveInt = 4096  # K; the head has K + 1 logits, the last is NULL
    rho: Annotated[float, Field(gt=0, lt=1)] = 0.25  # target share of positions that are concepts
    run_cap: NonNegativeInt = 0  # R: at most this many NULLs in a row; 0 is no cap
    positions: Literal["absolute", "compact"] = "absolute"
    readout: Literal["seed", "token"] = "seed"
    boundary: Boundary = "null"
    shallow_window: NonNegativeInt = 0  # tokens a shallow query may look back over; 0 is all
    temperature: PositiveFloat = 1.0  # of the straight-through Gumbel-Softmax
    logit_std: PositiveFloat = 3.2  # of the head's logits at the start (0.4 a weight at d = 64)
    null_rate_step: NonNegativeFloat = 1.0  # eta in null_bias += eta (target - rate)
    usage_bonus: NonNegativeFloat = 0.0  # weight of H(mean p) - H(p) / 2; 0 is pure cross entropy
    lora_rank: PositiveInt = 16
    lora_alpha: PositiveInt = 32
    lora_dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.run_cap and 1 / (self.run_cap + 1) > self.rho:
            raise ValueError(
                f"run_cap {self.run_cap} forces at least {1 / (self.run_cap + 1):.3f} concepts a "
                f"token, more than rho {self.rho}; raise one of them"
            )


def recommended(shallow: int, middle: int, deep: int, **changes: Any) -> ConceptConfig:
    """Settings that measured best: usage bonus, run cap, windowed shallow layers, token readout."""
    values: Any = {"usage_bonus": 0.1, "run_cap": 16, "shallow_window": 64, "readout": "token"}
    return ConceptConfig(shallow, middle, deep, **(values | changes))

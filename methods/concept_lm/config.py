"""What a concept language model is made of, checked before any work starts."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from methods.errors import InputError

BOUNDARIES = ("null", "autoregressive", "accumulate", "fixed", "multi_token", "similarity")


class ConceptError(InputError):
    """A model, checkpoint or data cannot be used as asked; the message says what to change."""


@dataclass(frozen=True)
class ConceptConfig:
    """The shape of v2: which layers see what, and how concepts are chosen.

    The base's decoder layers are split, in order, into `shallow` (all tokens), `middle` (concepts
    only) and `deep` (concepts, then the tokens since the last one).

    Raises:
        ConceptError: for values that no model can have.
    """

    shallow: int
    middle: int
    deep: int
    n_concepts: int = 4096  # K; the head has K + 1 logits, the last is NULL
    rho: float = 0.25  # target share of positions that become concepts
    run_cap: int = 0  # R: at most this many NULLs in a row; 0 is no cap
    positions: Literal["absolute", "compact"] = "absolute"
    readout: Literal["seed", "token"] = "seed"
    boundary: str = "null"  # one of BOUNDARIES
    shallow_window: int = 0  # tokens a shallow query may look back over; 0 is all
    temperature: float = 1.0  # of the straight-through Gumbel-Softmax
    logit_std: float = 3.2  # of the head's logits at the start (0.4 a weight at d = 64)
    null_rate_step: float = 1.0  # eta in null_bias += eta (target - rate)
    usage_bonus: float = 0.0  # weight of H(mean p) - H(p) / 2; 0 is pure cross entropy
    lora_rank: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.shallow < 1 or self.deep < 1 or self.middle < 0:
            raise ConceptError(
                f"split {self.shallow}/{self.middle}/{self.deep}: there must be at least one "
                "shallow and one deep layer, and no negative count"
            )
        if self.n_concepts < 1:
            raise ConceptError(
                f"n_concepts is {self.n_concepts}; a concept vocabulary needs an entry"
            )
        if not 0 < self.rho < 1:
            raise ConceptError(f"rho is {self.rho}; the share of concepts lies strictly in (0, 1)")
        if self.run_cap < 0 or self.shallow_window < 0:
            raise ConceptError("run_cap and shallow_window are counts of tokens; 0 turns them off")
        if self.run_cap and 1 / (self.run_cap + 1) > self.rho:
            raise ConceptError(
                f"run_cap {self.run_cap} forces at least {1 / (self.run_cap + 1):.3f} concepts a "
                f"token, more than rho {self.rho}; raise one of them"
            )
        if self.positions not in ("absolute", "compact"):
            raise ConceptError(f"positions is {self.positions!r}; choose absolute or compact")
        if self.readout not in ("seed", "token"):
            raise ConceptError(f"readout is {self.readout!r}; choose seed or token")
        if self.boundary not in BOUNDARIES:
            raise ConceptError(
                f"boundary is {self.boundary!r}; choose from {', '.join(BOUNDARIES)}"
            )
        if self.temperature <= 0 or self.logit_std <= 0:
            raise ConceptError("temperature and logit_std must be positive")
        if self.lora_rank < 1:
            raise ConceptError("lora_rank must be at least 1")

    @property
    def layers(self) -> int:
        """How many decoder layers the base must have."""
        return self.shallow + self.middle + self.deep

    def fit(self, base_layers: int) -> None:
        """Check the split against a base model.

        Raises:
            ConceptError: when the split does not add up to the base's layers.
        """
        if self.layers != base_layers:
            raise ConceptError(
                f"split {self.shallow}/{self.middle}/{self.deep} adds up to {self.layers} layers; "
                f"the base model has {base_layers}"
            )

    def as_dict(self) -> dict[str, Any]:
        """The configuration as plain values, for a checkpoint."""
        return asdict(self)


def faithful(shallow: int, middle: int, deep: int, **changes: Any) -> ConceptConfig:
    """The notes as written: pure cross entropy, global shallow attention, the concept reads out."""
    return ConceptConfig(shallow, middle, deep, **changes)


def recommended(shallow: int, middle: int, deep: int, **changes: Any) -> ConceptConfig:
    """What measurement asked for: usage bonus, run cap, windowed shallow layers, token readout."""
    values: dict[str, Any] = {
        "usage_bonus": 0.1,
        "run_cap": 16,
        "shallow_window": 64,
        "readout": "token",
    }
    return ConceptConfig(shallow, middle, deep, **(values | changes))

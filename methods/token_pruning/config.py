"""The configuration of a pruned LLaVA, checked before any work; the source's YAML keys load."""

from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from ..errors import InputError
from ..kit.config import PositiveShare, configuration, read_yaml


@configuration
class PruningConfig:
    """Both stages of pruning and how they are trained; defaults are the source's, for 7B.

    Three names keep what the source did and measurement found wrong, each as an ablation:
    `scored_merge` False leaves the merger's scorer without gradient and its columns summing to two,
    `gate` "scale" multiplies hidden states by the mask in place of a bias on the keys, `drop`
    "after" removes tokens behind layer l in place of before it.

    Raises:
        InputError: for values that no model can have.
    """

    merger_type: Literal["simple", "question_aware", "none"] = "question_aware"
    merge_ratio: PositiveShare = 0.5  # share of visual tokens that the merger keeps
    target_merge_tokens: PositiveInt | None = None  # their number, where it is given
    # Counted from 0; tokens are dropped before.
    pruning_layers: tuple[NonNegativeInt, ...] = (10, 20, 31)
    keep_tokens: tuple[int, ...] = (200, 150, 100)  # visual tokens after each head
    d_internal: PositiveInt = 512
    num_heads: PositiveInt = 4
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    temperature: PositiveFloat = 1.0
    temperature_min: PositiveFloat = 0.1
    temperature_anneal_rate: PositiveShare = 0.5  # share of training over which it falls
    loss: Literal["adversarial", "mse", "none", "attention"] = "adversarial"
    adv_loss_weight: NonNegativeFloat = 1.0
    task_loss_weight: NonNegativeFloat = 25.0
    merge_sparsity_weight: NonNegativeFloat = 1e-4
    sparsity_weight: NonNegativeFloat = 1.0
    merger_lr: PositiveFloat = 2e-5
    pruner_lr: PositiveFloat = 2e-5
    discriminator_lr: PositiveFloat = 5e-4
    discriminator_layers: tuple[int, ...] = (-1, -3, -5)
    d_discriminator: PositiveInt = 512
    scored_merge: bool = True
    gate: Literal["bias", "scale"] = "bias"
    drop: Literal["before", "after"] = "before"

    def __post_init__(self) -> None:
        if any(a >= b for a, b in pairwise(self.pruning_layers)):
            raise ValueError(f"pruning_layers are {self.pruning_layers}; they must rise")
        keep, heads = self.keep_tokens, len(self.pruning_layers)
        if len(keep) != heads:
            raise ValueError(f"{len(keep)} budgets for {heads} pruning layers; give one for each")
        if any(k < 1 for k in keep):
            raise ValueError(f"keep_tokens are {keep}; at least one visual token is kept")
        if any(a < b for a, b in pairwise(keep)):
            raise ValueError(f"keep_tokens are {keep}; dropped tokens do not come back")
        if self.d_internal % self.num_heads:
            raise ValueError(f"{self.num_heads} heads do not divide d_internal {self.d_internal}")
        if self.temperature_min > self.temperature:
            highest = f"temperature ({self.temperature})"
            raise ValueError(f"temperature_min ({self.temperature_min}) exceeds {highest}")

    def tau(self, step: int, steps: int) -> float:
        r"""The temperature of a step; a rate of one half falls over half of training.

        Equation: $\tau(t) = \max \left( \tau_{min}, \tau_0 - (\tau_0 - \tau_{min})
            \min \left( 1, \frac{t}{r T} \right) \right)$
        """
        done = min(1.0, step / (self.temperature_anneal_rate * max(1, steps)))
        fallen = self.temperature - (self.temperature - self.temperature_min) * done
        return max(self.temperature_min, fallen)

    def merged(self, visual: int) -> int:
        r"""Number of `visual` tokens that leave the merger.

        Equation: $M = \max(1, \mathrm{round}(\rho N))$

        `target_merge_tokens` is M where it is given, and without a merger M = N.

        Raises:
            InputError: when more should leave than enter.
        """
        if self.merger_type == "none":
            return visual
        count = self.target_merge_tokens
        if count is None:
            return max(1, round(self.merge_ratio * visual))
        if count > visual:
            raise InputError(f"target_merge_tokens {count} exceeds the {visual} visual tokens")
        return count

    def fit(self, layers: int, visual: int) -> None:
        """Check the configuration against a model's decoder layers and visual tokens.

        Raises:
            InputError: for a layer that does not exist, or a budget above the tokens there.
        """
        if beyond := [layer for layer in self.pruning_layers if layer >= layers]:
            layers_there = f"the model has layers 0 to {layers - 1}"
            raise InputError(f"no pruning layer {beyond[0]}: {layers_there}")
        for layer in self.discriminator_layers:
            if not -layers - 1 <= layer <= layers:
                states = f"the model has {layers + 1} hidden states"
                raise InputError(f"no discriminator layer {layer}: {states}")
        first = self.merged(visual)
        if self.keep_tokens and (most := self.keep_tokens[0]) > first:
            raise InputError(f"a budget of {most} visual tokens exceeds the {first} there are")


def faithful(**changes: Any) -> PruningConfig:
    """The source as it stands: no gradient to the scorer, scaled hidden states, late dropping."""
    values: dict[str, Any] = {"scored_merge": False, "gate": "scale", "drop": "after"}
    return PruningConfig(**(values | changes))


# The source's names for what is called differently here.
RENAMED = {"pruner_d_internal": "d_internal", "pruner_num_heads": "num_heads"}
OPTIMISERS = {
    **dict.fromkeys(("merger", "token_merger"), "merger_lr"),
    **dict.fromkeys(("pruner", "pruners", "layer_pruners"), "pruner_lr"),
    "discriminator": "discriminator_lr",
}


def load_config(path: str | Path) -> PruningConfig:
    """Read a YAML file with the source's keys or ours.

    Raises:
        InputError: for a file that is not there or not YAML, an unknown key, or a bad value.
    """
    return from_keys(read_yaml(path))


def from_keys(keys: Mapping[str, Any]) -> PruningConfig:
    """A configuration from the source's keys; `optimizers.*.lr` are nested.

    Raises:
        InputError: for an unknown key or a value that does not fit.
    """
    values = {RENAMED.get(key, key): value for key, value in keys.items()}
    values |= _rates(values.pop("optimizers", {}))
    names = [field.name for field in fields(PruningConfig)]
    for name in values.keys() - names:
        raise InputError(f"unknown key {name!r}; known: {', '.join([*names, *RENAMED])}")
    return PruningConfig(**values)


def _rates(optimisers: Any) -> dict[str, Any]:
    if not isinstance(optimisers, Mapping):
        raise InputError("optimizers holds a section for each of merger, pruner, discriminator")
    rates = {}
    for name, section in optimisers.items():
        if name not in OPTIMISERS:
            raise InputError(f"unknown optimiser {name!r}; known: {', '.join(OPTIMISERS)}")
        if not isinstance(section, Mapping) or "lr" not in section:
            raise InputError(f"optimizers.{name} has no lr")
        rates[OPTIMISERS[name]] = section["lr"]
    return rates

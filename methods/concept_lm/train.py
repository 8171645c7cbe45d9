"""One training loop for every model here, so that all models compared see the same data."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from methods.concept_lm.config import ConceptError
from methods.kit.checkpoint import Checkpoint
from methods.kit.training import History, descend, run_steps


class Learner(Protocol):
    """What the loop trains."""

    def module(self) -> nn.Module:
        """The parameters and buffers that a checkpoint keeps."""

    def training_loss(self, step: int) -> Tensor:
        r"""The loss (scalar) of a step i, on its own batch.

        A step's batch depends on the seed and the step alone.

        Equation: $L_i = L(\theta; x_i), \quad x_i = \mathrm{batch}(\mathrm{seed}, i)$
        """


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    Raises:
        ConceptError: for values with which nothing would be learnt.
    """

    steps: int
    lr: float = 3e-3
    warm_up: int = 20
    clip: float = 1.0
    weight_decay: float = 0.0
    seed: int = 0
    mixed: bool = False  # bf16 autocast

    def __post_init__(self) -> None:
        if self.steps < 1 or self.lr <= 0 or self.clip <= 0 or self.warm_up < 0:
            raise ConceptError("steps, lr and clip must be positive and warm_up not negative")

    def rate(self, step: int) -> float:
        """Linear warm-up, then a cosine down to a tenth."""
        if step < self.warm_up:
            return self.lr * (step + 1) / self.warm_up
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


OnStep = Callable[[int, History], None]


def train(
    learner: Learner,
    plan: Plan,
    *,
    on_step: OnStep | None = None,
    checkpoint: Path | None = None,
    every: int = 100,
    describe: dict[str, Any] | None = None,
) -> History:
    r"""Train to the end of the plan, from its beginning or from a checkpoint.

    Equation: $\theta \leftarrow \mathrm{AdamW}(\theta, \, g
    \min(1, \mathrm{clip} / \lVert g \rVert)), \quad g = \nabla_\theta L_i$

    Args:
        learner: the model with its data.
        plan: steps, rates, seed.
        on_step: hears the steps done and the history so far.
        checkpoint: file to resume from, when it is there, and to write every `every` steps.
        every: steps between checkpoints.
        describe: what the checkpoint must agree with, such as the model's configuration.

    Raises:
        CheckpointError: for a checkpoint of another version or another model.
        ConceptError: for a loss that is no number.
    """
    module, history = learner.module(), History()
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(
        parameters, lr=plan.lr, betas=(0.9, 0.95), weight_decay=plan.weight_decay
    )
    device = parameters[0].device

    def one_step(i: int) -> None:
        for group in optimiser.param_groups:
            group["lr"] = plan.rate(i)
        with torch.autocast(device.type, torch.bfloat16, enabled=plan.mixed):
            loss = learner.training_loss(i)
        norm = descend(optimiser, loss, parameters, step=i, clip=plan.clip, error=ConceptError)
        history.loss.append(float(loss.detach()))
        history.grad_norm.append(norm)

    kept = None
    if checkpoint is not None:
        about = {"plan": asdict(plan), **(describe or {})}
        kept = Checkpoint(checkpoint, about, {"module": module, "optimiser": optimiser}, every)
    return run_steps(
        one_step,
        plan.steps,
        history,
        module=module,
        seed=plan.seed,
        on_step=on_step,
        checkpoint=kept,
    )

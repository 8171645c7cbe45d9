"""The loop around a training step: its random numbers, its checkpoints, its progress.

The batch and the noise of a step depend on the seed and the step alone, so a run that was
interrupted goes on as if it had not been, and all models compared see the same data.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TypeVar

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn

from ..errors import InputError
from .checkpoint import Checkpoint
from .config import Share, configuration
from .seeds import seeded


@configuration
class Plan:
    """Steps, learning rates and seed of a training.

    Raises:
        InputError: for values with which nothing would be learnt.
    """

    steps: PositiveInt
    rate: PositiveFloat = 1e-3  # the highest
    warm_up: NonNegativeInt = 20
    clip: PositiveFloat = 1.0  # of the gradient's norm
    seed: int = 0
    least: Share = 0.1  # share of the rate at the end

    def rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine down."""
        if step < self.warm_up:
            return self.rate * ((step + 1) / self.warm_up)
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.rate * (self.least + (1 - self.least) * (1 + math.cos(math.pi * done)) / 2)


@dataclass
class History:
    """Figures of each step; methods add theirs in subclasses."""

    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)


H = TypeVar("H", bound=History)


def fit(
    loss: Callable[[int], Tensor],
    optimiser: torch.optim.Optimizer,
    plan: Plan,
    history: H,
    *,
    module: nn.Module,
    backward: Callable[[Tensor], None] = torch.autograd.backward,
    on_step: Callable[[int, H], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> H:
    r"""Train down the gradient of `loss(i)`, step by step: what every method's training is.

    Equation: $\theta \leftarrow \mathrm{Opt}(\theta, \, g
    \min(1, \mathrm{clip} / \lVert g \rVert)), \quad g = \nabla_\theta L$

    Args:
        loss: of step i, from its batch.
        optimiser: a parameter group with a `speed` has its rate multiplied by that.
        plan: steps, rates, and the seed from which each step has one of its own.
        history: what is added to; its length is the number of steps done.
        module: put into training mode, and afterwards into evaluation mode.
        backward: how the loss flows back.
        on_step: called with the steps done and the history so far.
        checkpoint: file to resume from, when it is there, and to write: module, optimiser, and what
            else it names. The plan must agree, beside what the checkpoint is about.

    Raises:
        CheckpointError: for a checkpoint of another run.
        InputError: where the loss is no number.
    """
    if checkpoint is not None:
        checkpoint = checkpoint.of({"module": module, "optimiser": optimiser}, plan=asdict(plan))
        for name, values in checkpoint.resume().items():
            setattr(history, name, values)
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    device = next(module.parameters()).device
    module.train()
    for i in range(len(history.loss), plan.steps):
        for group in optimiser.param_groups:
            group["lr"] = plan.rate_at(i) * group.get("speed", 1.0)
        # So far apart that two plans of neighbouring seeds share the seed of no step.
        with seeded(plan.seed * 1_000_003 + i, device):
            value = loss(i)
            if not torch.isfinite(value):
                raise InputError(f"the loss is {float(value.detach())} at step {i}; lower the rate")
            optimiser.zero_grad(set_to_none=True)
            backward(value)
        norm = nn.utils.clip_grad_norm_(parameters, plan.clip)
        optimiser.step()
        history.loss.append(float(value.detach()))
        history.grad_norm.append(float(norm))
        if on_step is not None:
            on_step(i + 1, history)
        if checkpoint is not None and ((i + 1) % checkpoint.every == 0 or i + 1 == plan.steps):
            checkpoint.save(asdict(history))
    module.eval()
    return history

"""One training loop for every model here: clipping, progress, mixed precision, exact resume.

The batch and the noise of a step depend on the seed and the step alone, so a run that was
interrupted goes on as if it had not been, and all models compared see the same data.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from methods.concept_lm.config import ConceptError

FORMAT = 1


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


@dataclass
class History:
    """Loss and gradient norm of each step."""

    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)


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
        ConceptError: for a checkpoint of another version or another model, or a loss that is no
            number.
    """
    module = learner.module()
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(
        parameters, lr=plan.lr, betas=(0.9, 0.95), weight_decay=plan.weight_decay
    )
    history, begin = History(), 0
    about = {"plan": asdict(plan), **(describe or {})}
    if checkpoint is not None and checkpoint.exists():
        begin = _resume(checkpoint, module, optimiser, history, about)
    device = parameters[0].device
    module.train()
    for step in range(begin, plan.steps):
        for group in optimiser.param_groups:
            group["lr"] = plan.rate(step)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(plan.seed * 1_000_003 + step)
            with torch.autocast(device.type, torch.bfloat16, enabled=plan.mixed):
                loss = learner.training_loss(step)
            if not torch.isfinite(loss):
                raise ConceptError(f"the loss is {float(loss)} at step {step}; lower the rate")
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
        norm = nn.utils.clip_grad_norm_(parameters, plan.clip)
        optimiser.step()
        history.loss.append(float(loss.detach()))
        history.grad_norm.append(float(norm))
        if on_step is not None:
            on_step(step + 1, history)
        if checkpoint is not None and ((step + 1) % every == 0 or step + 1 == plan.steps):
            _save(checkpoint, module, optimiser, history, about)
    module.eval()
    return history


def _kept(module: nn.Module) -> dict[str, Tensor]:
    """Trainable parameters and buffers; the frozen base is not copied into checkpoints."""
    frozen = {name for name, p in module.named_parameters() if not p.requires_grad}
    return {name: t for name, t in module.state_dict().items() if name not in frozen}


def _save(
    path: Path,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    history: History,
    about: dict[str, Any],
) -> None:
    state = {
        "format": FORMAT,
        "about": about,
        "module": _kept(module),
        "optimiser": optimiser.state_dict(),
        "history": asdict(history),
    }
    partial = path.with_suffix(path.suffix + ".partial")
    torch.save(state, partial)
    partial.replace(path)  # a checkpoint is whole or absent


def _resume(
    path: Path,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    history: History,
    about: dict[str, Any],
) -> int:
    try:
        state = torch.load(path, weights_only=True)
    except Exception as error:  # torch.load raises whatever its unpickler meets
        raise ConceptError(f"{path.name} is not a checkpoint: {error}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else None
        raise ConceptError(
            f"{path.name} is a checkpoint of format {found}, this code reads {FORMAT}; "
            "train again or use the version that wrote it"
        )
    changed = sorted(key for key in about if state["about"].get(key) != about[key])
    if changed:
        raise ConceptError(f"{path.name} was made with another {', '.join(changed)}")
    module.load_state_dict(state["module"], strict=False)
    optimiser.load_state_dict(state["optimiser"])
    history.loss[:] = state["history"]["loss"]
    history.grad_norm[:] = state["history"]["grad_norm"]
    return len(history.loss)

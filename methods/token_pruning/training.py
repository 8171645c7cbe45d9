"""Training: pruner and discriminator in turn, with progress, exact resume and one loop for all.

The batch and the noise of a step depend on the seed and the step alone, so a run that was
interrupted goes on as if it had not been, and all losses compared see the same data.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.token_pruning.config import PruningError
from methods.token_pruning.discriminator import Discriminator
from methods.token_pruning.llava import encode
from methods.token_pruning.loop import Prompt
from methods.token_pruning.losses import closeness, count_term, discriminator_loss, sparsity
from methods.token_pruning.model import Pruner, load_weights, read_file

FORMAT = 1
CLIP = 1.0

Draw = Callable[[int], Prompt]  # the batch of a step


@dataclass
class History:
    """What each step measured: losses, D's loss, accuracy, mean m, norm of the gradients."""

    loss: list[float] = field(default_factory=list)
    task: list[float] = field(default_factory=list)
    close: list[float] = field(default_factory=list)
    judge: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)


OnStep = Callable[[int, History], None]


@dataclass(frozen=True)
class Schedule:
    """How long to train and from which seed; rates and weights stand in the configuration.

    Raises:
        PruningError: for no step.
    """

    steps: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise PruningError(f"{self.steps} steps; at least one is needed to learn anything")


class Trainer:
    """Pruner, discriminator and their optimisers; `step` is one of G, then one of D."""

    def __init__(self, pruner: Pruner, schedule: Schedule) -> None:
        config = pruner.config
        self.pruner, self.schedule = pruner, schedule
        groups: list[dict[str, Any]] = [
            {"params": list(pruner.heads.parameters()), "lr": config.pruner_lr}
        ]
        if pruner.merger is not None:
            groups.append({"params": list(pruner.merger.parameters()), "lr": config.merger_lr})
        groups = [group for group in groups if group["params"]]
        if not groups:
            raise PruningError("there is neither merger nor head: nothing to train")
        self.rates = [group["lr"] for group in groups]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=0.0)
        self.judge: Discriminator | None = None
        self.judge_optimiser: torch.optim.Optimizer | None = None
        if config.loss == "adversarial":
            d_model = pruner.llava.config.text_config.hidden_size
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(schedule.seed)
                self.judge = Discriminator(d_model, config)
            self.judge.to(next(pruner.parameters()).device)
            self.judge_optimiser = torch.optim.AdamW(
                self.judge.parameters(), lr=config.discriminator_lr, weight_decay=0.0
            )
        self.history = History()

    def rho(self, tokens: int) -> dict[int, float]:
        r"""The share that each head should keep of the n tokens it gates in training.

        Equation: $\rho_l = k_l / n$
        """
        config = self.pruner.config
        places = zip(config.pruning_layers, config.keep_tokens, strict=True)
        return {layer: keep / tokens for layer, keep in places}

    def generator_loss(self, prompt: Prompt, tau: float) -> tuple[Tensor, dict[str, Any]]:
        r"""G's loss () on a batch, and what it is made of.

        Equation: $G = w_{task} \mathrm{CE} + w_{adv} \mathrm{BCE}(D(\mathrm{fake}), 1)
            + w_s L_s + w_c L_c$
        """
        config = self.pruner.config
        with torch.no_grad():
            vision = encode(self.pruner.llava, prompt.pixels)
        soft = self.pruner.soft(prompt, vision, tau, noise=self.pruner.training)
        task = F.cross_entropy(soft.logits.float(), soft.targets)
        real: list[Tensor] = []
        if config.loss != "none":
            real = self.pruner.unpruned(prompt, vision).states
        close = closeness(config, self.judge, real, soft.states)
        loss = config.task_loss_weight * task + close
        # heads are relative to one another: m of a later head counts what the earlier let through
        through: dict[int, Tensor] = {}
        total = None if soft.merged is None else soft.merged.gate
        for layer in sorted(soft.gates):
            gate = soft.gates[layer]
            total = gate if total is None else total + gate
            through[layer] = total
        if through and total is not None:
            loss = loss + config.sparsity_weight * sparsity(through, self.rho(total.shape[1]))
        if soft.merged is not None and self.pruner.merger is not None:
            keep = soft.merged.weights.shape[2]
            loss = loss + config.merge_sparsity_weight * count_term(soft.merged.scores, keep)
        parts = {
            "task": float(task.detach()),
            "close": float(close.detach()),
            "accuracy": float((soft.logits.argmax(-1) == soft.targets).float().mean()),
            "kept": float(total.detach().exp().mean()) if total is not None else 1.0,
            "real": real,
            "fake": soft.states,
        }
        return loss, parts

    def generator_gradients(self, prompt: Prompt, tau: float) -> tuple[Tensor, dict[str, Any]]:
        r"""Gradients of G's loss, in the pruner alone: loss () and parts.

        Equation: $\mathrm{grad}_\theta = \frac{\partial G}{\partial \theta}$, theta the pruner's
        weights; those of D and of the language model get none.
        """
        self.optimiser.zero_grad(set_to_none=True)
        if self.judge is not None:
            self.judge.requires_grad_(False)
        loss, parts = self.generator_loss(prompt, tau)
        torch.autograd.backward(loss)
        if self.judge is not None:
            self.judge.requires_grad_(True)
        return loss.detach(), parts

    def judge_gradients(self, judge: Discriminator, parts: dict[str, Any]) -> Tensor:
        r"""Gradients of D's loss, in the discriminator alone: the loss ().

        Equation: $\mathrm{grad}_\phi = \frac{\partial L_D}{\partial \phi}$, phi the discriminator's
        weights; the states it judges, and so the pruner, get none.
        """
        judge.zero_grad(set_to_none=True)
        loss = discriminator_loss(judge, parts["real"], parts["fake"])
        torch.autograd.backward(loss)
        return loss.detach()

    def step(self, number: int, prompt: Prompt) -> None:
        r"""One step of G and, if there is one, of D, which is neither clipped nor ramped.

        Equation: $\theta \gets \mathrm{AdamW}(\theta, g \min(1, \frac{1}{\lVert g \rVert_2})),
        \quad \eta_t = \eta \min(1, \frac{t + 1}{20})$

        Raises:
            PruningError: for a loss that is no number.
        """
        tau = self.pruner.config.tau(number, self.schedule.steps)
        ramp = min(1.0, (number + 1) / 20)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * ramp
        loss, parts = self.generator_gradients(prompt, tau)
        if not torch.isfinite(loss):
            raise PruningError(f"the loss is {float(loss)} at step {number}; lower the rates")
        norm = nn.utils.clip_grad_norm_(self.pruner.parameters(), CLIP)
        self.optimiser.step()
        judged = 0.0
        if self.judge is not None and self.judge_optimiser is not None:
            judged = float(self.judge_gradients(self.judge, parts))
            self.judge_optimiser.step()
        history = self.history
        history.loss.append(float(loss))
        history.judge.append(judged)
        history.grad_norm.append(float(norm))
        for name in ("task", "close", "accuracy", "kept"):
            getattr(history, name).append(parts[name])

    def state(self) -> dict[str, Any]:
        """Everything that a resumed run needs."""
        return {
            "format": FORMAT,
            "about": {"config": self.pruner.config.as_dict(), "schedule": asdict(self.schedule)},
            "pruner": self.pruner.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "judge": self.judge.state_dict() if self.judge else {},
            "judge_optimiser": self.judge_optimiser.state_dict() if self.judge_optimiser else {},
            "history": asdict(self.history),
        }

    def resume(self, path: Path) -> int:
        """Go on from a checkpoint; the step to begin with.

        Raises:
            PruningError: for a checkpoint of another format, configuration, schedule or shape.
        """
        state = read_file(path, FORMAT)
        about = self.state()["about"]
        changed = sorted(key for key in about if state["about"].get(key) != about[key])
        if changed:
            raise PruningError(f"{path.name} was made with another {', '.join(changed)}")
        load_weights(self.pruner, state["pruner"], path.name)
        self.optimiser.load_state_dict(state["optimiser"])
        if self.judge is not None and self.judge_optimiser is not None:
            load_weights(self.judge, state["judge"], path.name)
            self.judge_optimiser.load_state_dict(state["judge_optimiser"])
        self.history = History(**state["history"])
        return len(self.history.loss)


def train(
    pruner: Pruner,
    draw: Draw,
    schedule: Schedule,
    *,
    on_step: OnStep | None = None,
    checkpoint: Path | None = None,
    every: int = 100,
) -> History:
    """Train to the end of the schedule, from its beginning or from a checkpoint.

    Args:
        pruner: merger and heads; the model they belong to stays as it is.
        draw: the batch of a step.
        schedule: steps and seed.
        on_step: hears the steps done and the history so far.
        checkpoint: file to resume from, when it is there, and to write every `every` steps.
        every: steps between checkpoints.

    Raises:
        PruningError: for a checkpoint of another run, or a loss that is no number.
    """
    trainer = Trainer(pruner, schedule)
    begin = trainer.resume(checkpoint) if checkpoint is not None and checkpoint.exists() else 0
    device = next(pruner.parameters()).device
    pruner.train()
    for number in range(begin, schedule.steps):
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(schedule.seed * 1_000_003 + number)
            trainer.step(number, draw(number))
        if on_step is not None:
            on_step(number + 1, trainer.history)
        if checkpoint is not None and ((number + 1) % every == 0 or number + 1 == schedule.steps):
            partial = checkpoint.with_suffix(checkpoint.suffix + ".partial")
            torch.save(trainer.state(), partial)
            partial.replace(checkpoint)  # a checkpoint is whole or absent
    pruner.eval()
    return trainer.history

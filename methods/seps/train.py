"""Training on the scenes: fixed seeds, progress, checkpoints that a run can go on from.

Batch and noise of a step depend on the seed and the step alone, so that a training that was
interrupted goes on as if it had not been, and every model compared sees the same scenes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from methods.seps import scenes
from methods.seps.config import SepsError
from methods.seps.encoders import ImageEncoder, TextEncoder
from methods.seps.model import Output, Seps

FORMAT = 2
TRAINING, TEACHING, HELD_OUT = 1_000_000, 2_000_000, 3_000_000  # where the scenes' seeds begin
OnStep = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    Raises:
        SepsError: for values with which nothing would be learnt.
    """

    steps: int
    batch: int = 32
    rate: float = 1e-3
    warm_up: int = 20
    hardest_after: float = 1.0  # share of the steps in which every negative counts alike
    head: float = 10.0  # how much faster the slimming model learns than the encoders under it
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 2 or not self.rate > 0 or self.warm_up < 0:
            raise SepsError(
                f"steps {self.steps}, batch {self.batch}, rate {self.rate}, warm_up "
                f"{self.warm_up}: at least 1 step of 2 pairs, a positive rate, no negative warm-up"
            )
        if not (math.isfinite(self.head) and self.head > 0):
            raise SepsError(f"head is {self.head}; it must be positive and finite")
        if not 0 <= self.hardest_after <= 1:
            raise SepsError(f"hardest_after is {self.hardest_after}; a share lies in [0, 1]")

    def hardest_at(self, step: int) -> float:
        """Weight of the hardest negatives: 0 until `hardest_after`, then growing towards 1."""
        begin = self.hardest_after * self.steps
        return max(0.0, (step + 1 - begin) / (self.steps - begin)) if begin < self.steps else 0.0

    def rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine down to a twentieth."""
        if step < self.warm_up:
            return self.rate * (step + 1) / self.warm_up
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.rate * (0.05 + 0.475 * (1 + math.cos(math.pi * done)))


class Matcher(nn.Module):
    """Two encoders and a slimming model between them."""

    def __init__(self, images: ImageEncoder, texts: TextEncoder, slimmer: Seps) -> None:
        super().__init__()
        self.images, self.texts, self.slimmer = images, texts, slimmer

    def forward(self, batch: scenes.Scenes) -> Output:
        r"""All pairs of a batch.

        Equation: $S = \mathrm{Seps}(\mathrm{Encoder}(x), \mathrm{Encoder}(\mathrm{sparse}),
        \mathrm{Encoder}(\mathrm{dense}))$
        """
        dense = self.texts(batch.dense) if self.slimmer.config.dense else None
        output: Output = self.slimmer(self.images(batch.images), self.texts(batch.sparse), dense)
        return output

    def loss(self, batch: scenes.Scenes, *, hardest: float) -> Tensor:
        """Alignment and weighted ratio loss together: a scalar.

        Equation: $L = L_{align} + w L_{ratio}$
        """
        align, ratio = self.slimmer.losses(self(batch), hardest=hardest)
        return align + ratio

    @torch.no_grad()
    def judge(self, held_out: scenes.Scenes) -> Recall:
        """Recall on scenes that no training has seen."""
        self.eval()
        dense = self.texts(held_out.dense) if self.slimmer.config.dense else None
        S = self.slimmer.all_pairs(
            self.images(held_out.images), self.texts(held_out.sparse), dense, images=8
        )
        return recall(S)


@dataclass(frozen=True)
class Recall:
    """Percent of queries whose counterpart is among the first 1, 5 and 10."""

    to_text: tuple[float, float, float]
    to_image: tuple[float, float, float]

    @property
    def total(self) -> float:
        """rSum: all six, 600 at best."""
        return sum(self.to_text) + sum(self.to_image)


def recall(S: Tensor, owners: Tensor | None = None) -> Recall:
    r"""R@1, 5, 10 both ways from similarities (n, m), captions by images.

    `owners` (n,) says whose image a caption is of, as five are in Flickr30K and COCO; without it
    the true pairs are the diagonal. An image has found its text with its best caption. A tie counts
    against the true pair, or a constant similarity would be perfect.

    Equation: $R@k = \frac{100}{n} \sum_i [\operatorname{rank}_i \le k]$

    Raises:
        SepsError: for similarities that are no numbers or, without owners, not square; owners that
            are no images; an image without a caption.
    """
    if S.ndim != 2 or not S.numel() or not bool(torch.isfinite(S).all()):
        raise SepsError(
            f"recall needs finite similarities (captions, images), not {tuple(S.shape)}"
        )
    n, m = S.shape
    if owners is None:
        if n != m:
            raise SepsError(f"{n} captions for {m} images: say by `owners` whose each caption is")
        owners = torch.arange(n, device=S.device)
    if owners.shape != (n,) or sorted(set(owners.tolist())) != list(range(m)):
        raise SepsError(f"owners must give each of {n} captions one of {m} images, each image some")
    true = S.gather(1, owners[:, None])  # (n, 1)
    own = owners[:, None] == torch.arange(m, device=S.device)  # (n, m)

    def within(ranks: Tensor) -> tuple[float, float, float]:
        one, five, ten = (100 * float((ranks <= k).double().mean()) for k in (1, 5, 10))
        return one, five, ten

    best = S.masked_fill(~own, -torch.inf).amax(0)  # (m,) of an image's own captions
    others = (best <= S) & ~own  # (n, m)
    return Recall(to_text=within(1 + others.sum(0)), to_image=within((true <= S).sum(1)))


def folds(S: Tensor, owners: Tensor, count: int = 5) -> Recall:
    r"""Recall averaged over `count` equal parts of the images, as COCO's 1K test is read.

    Equation: $R = \frac{1}{F} \sum_f R(S_f)$, S_f the f-th part's images with their captions

    Raises:
        SepsError: when the images do not divide into so many parts.
    """
    m = S.shape[1]
    if count < 1 or m % count:
        raise SepsError(f"{m} images do not divide into {count} folds")
    size, found = m // count, []
    for begin in range(0, m, size):
        rows = (owners >= begin) & (owners < begin + size)
        found.append(recall(S[rows, begin : begin + size], owners[rows] - begin))

    def mean(ways: list[tuple[float, float, float]]) -> tuple[float, float, float]:
        one, five, ten = (sum(column) / count for column in zip(*ways, strict=True))
        return one, five, ten

    return Recall(mean([one.to_text for one in found]), mean([one.to_image for one in found]))


def teach(dim: int, steps: int, seed: int, batch: int = 32, on_step: OnStep | None = None) -> Any:
    """An image encoder that knows the labels of patches, and a fresh text encoder."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        images, texts = ImageEncoder(dim), TextEncoder(dim)
    plan = Plan(max(1, steps), batch=batch, rate=2e-3)
    optimiser = torch.optim.AdamW(images.parameters(), lr=plan.rate, weight_decay=0.01)
    for step in range(steps):
        loss = images.label_loss(scenes.draw(batch, TEACHING + seed * 100_003 + step))
        _step(optimiser, loss, list(images.parameters()), plan.rate_at(step), step)
        if on_step is not None:
            on_step(step + 1, steps, float(loss.detach()))
    return images, texts


def assemble(taught: tuple[ImageEncoder, TextEncoder], slimmer: Seps) -> Matcher:
    """A matcher of its own copies of the taught encoders."""
    return Matcher(deepcopy(taught[0]), deepcopy(taught[1]), slimmer)


@dataclass
class History:
    """The loss of each step."""

    loss: list[float] = field(default_factory=list)


def train(
    matcher: Matcher,
    plan: Plan,
    *,
    on_step: OnStep | None = None,
    checkpoint: Path | None = None,
    every: int = 100,
) -> History:
    """Train to the end of the plan, from its beginning or from a checkpoint.

    Args:
        matcher: what is trained.
        plan: steps, rates, seed.
        on_step: hears the steps done, those in all, and the loss.
        checkpoint: file to go on from, where it is there, and to write every `every` steps.
        every: steps between checkpoints.

    Raises:
        SepsError: for a checkpoint of another plan, configuration or shape, or a loss that is no
            number.
    """
    heads = [p for p in matcher.slimmer.parameters() if p.requires_grad]
    encoders = [*matcher.images.parameters(), *matcher.texts.parameters()]
    optimiser = torch.optim.AdamW(
        [{"params": encoders, "speed": 1.0}, {"params": heads, "speed": plan.head}],
        weight_decay=0.01,
    )
    parameters, history = [*encoders, *heads], History()
    if checkpoint is not None and checkpoint.exists():
        _resume(checkpoint, matcher, optimiser, history, plan)
    device = parameters[0].device
    matcher.train()
    for step in range(len(history.loss), plan.steps):
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(plan.seed * 1_000_003 + step)
            seed = TRAINING + plan.seed * 100_003 + step
            batch = scenes.draw(plan.batch, seed).to(str(device))
            loss = matcher.loss(batch, hardest=plan.hardest_at(step))
            _step(optimiser, loss, parameters, plan.rate_at(step), step)
        history.loss.append(float(loss.detach()))
        if on_step is not None:
            on_step(step + 1, plan.steps, history.loss[-1])
        if checkpoint is not None and ((step + 1) % every == 0 or step + 1 == plan.steps):
            _save(checkpoint, matcher, optimiser, history, plan)
    matcher.eval()
    return history


def _step(
    optimiser: torch.optim.Optimizer,
    loss: Tensor,
    parameters: list[nn.Parameter],
    rate: float,
    step: int,
) -> None:
    if not bool(torch.isfinite(loss)):
        raise SepsError(f"the loss is {float(loss.detach())} at step {step}; lower the rate")
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get("speed", 1.0)
    optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimiser.step()


def _save(
    path: Path,
    matcher: Matcher,
    optimiser: torch.optim.Optimizer,
    history: History,
    plan: Plan,
) -> None:
    state = {
        "format": FORMAT,
        "plan": asdict(plan),
        "config": matcher.slimmer.config.as_dict(),
        "module": matcher.state_dict(),
        "optimiser": optimiser.state_dict(),
        "history": asdict(history),
    }
    partial = path.with_suffix(path.suffix + ".partial")
    torch.save(state, partial)
    partial.replace(path)  # a checkpoint is whole or absent


def _resume(
    path: Path,
    matcher: Matcher,
    optimiser: torch.optim.Optimizer,
    history: History,
    plan: Plan,
) -> None:
    try:
        state = torch.load(path, weights_only=True)
    except Exception as error:  # torch.load raises whatever its unpickler meets
        raise SepsError(f"{path.name} is not a checkpoint: {error}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else None
        raise SepsError(f"{path.name} is a checkpoint of format {found}, this code reads {FORMAT}")
    for what, ours in (("plan", asdict(plan)), ("config", matcher.slimmer.config.as_dict())):
        theirs = state[what]
        changed = sorted(key for key in ours if theirs.get(key) != ours[key])
        if changed:
            told = "; ".join(f"{key} {theirs.get(key)!r}, now {ours[key]!r}" for key in changed)
            raise SepsError(f"{path.name} was made with another {what}: {told}")
    try:
        matcher.load_state_dict(state["module"])
    except RuntimeError as error:
        raise SepsError(f"{path.name} holds weights of another shape: {error}") from error
    optimiser.load_state_dict(state["optimiser"])
    history.loss[:] = state["history"]["loss"]

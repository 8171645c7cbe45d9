"""Training: fixed seeds, progress, checkpoints that a run can go on from.

Batch and noise of a step depend on the seed and the step alone, so that a training that was
interrupted goes on as if it had not been, and every model compared sees the same pairs.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from ..kit import training as kit
from ..kit.checkpoint import Checkpoint
from ..kit.config import Positive, Share, configuration
from ..kit.seeds import seeded
from . import toy as scenes
from .encoders import ImageEncoder, TextEncoder
from .model import Batch, Output, Seps
from .recall import Recall, recall
from .spec import RetrievalParams, TrainParams

TRAINING, TEACHING, HELD_OUT = 1_000_000, 2_000_000, 3_000_000  # where the scenes' seeds begin
Draw = Callable[[int], Batch]
Asked = Literal["sparse", "dense"]


@configuration
class Plan(kit.Plan):
    """How long and how fast to train, and on what.

    Raises:
        InputError: for values with which nothing would be learnt.
    """

    least: float = 0.05
    batch: Annotated[int, Field(ge=2)] = 32
    # Share of the steps in which every negative counts alike.
    hardest_after: Share = 1.0
    # How much faster what is new (slimming model, projections) learns than the encoders under it.
    head: Positive = 10.0

    @classmethod
    def of(cls, params: RetrievalParams | TrainParams, seed: int) -> Self:
        """The plan in the parameters of a benchmark or a command."""
        planned = params.model_dump(include={"steps", "rate", "batch", "hardest_after"})
        return cls(seed=seed, **planned)

    def hardest_at(self, step: int) -> float:
        """Weight of the hardest negatives: 0 until `hardest_after`, then growing towards 1."""
        begin = self.hardest_after * self.steps
        return max(0.0, (step + 1 - begin) / (self.steps - begin)) if begin < self.steps else 0.0


class Matcher(nn.Module):
    """Two encoders and a slimming model between them; `asks` says which text is the query."""

    def __init__(
        self, images: nn.Module, texts: nn.Module, slimmer: Seps, asks: Asked = "sparse"
    ) -> None:
        super().__init__()
        self.images, self.texts, self.slimmer, self.asks = images, texts, slimmer, asks

    def _queries(self, batch: Batch) -> list[Any]:
        """Patches, the query and the text that guides, if there is one."""
        dense = batch.dense
        asked = batch.sparse if self.asks == "sparse" else dense
        guide = self.texts(dense) if self.slimmer.config.dense else None
        return [self.images(batch.images), self.texts(asked), guide]

    def forward(self, batch: Batch) -> Output:
        r"""All pairs of a batch.

        Equation: $S = \mathrm{Seps}(\mathrm{Encoder}(x), \mathrm{Encoder}(\mathrm{sparse}),
        \mathrm{Encoder}(\mathrm{dense}))$
        """
        output: Output = self.slimmer(*self._queries(batch))
        return output

    def loss(self, batch: Batch, *, hardest: float) -> Tensor:
        """Alignment and weighted ratio loss together: a scalar.

        Equation: $L = L_{align} + w L_{ratio}$
        """
        align, ratio = self.slimmer.losses(self(batch), hardest=hardest, owners=batch.owners)
        return align + ratio

    @torch.no_grad()
    def judge(self, held_out: Batch) -> Recall:
        """Recall on pairs that no training has seen."""
        self.eval()
        return recall(self.slimmer.all_pairs(*self._queries(held_out), images=8))


def teach(
    dim: int,
    steps: int,
    seed: int,
    batch: int = 32,
    on_step: Callable[[int, kit.History], None] | None = None,
) -> tuple[ImageEncoder, TextEncoder]:
    """An image encoder trained on the labels of patches, and an untrained text encoder."""
    with seeded(seed):
        images, texts = ImageEncoder(dim), TextEncoder(dim)
    begin = TEACHING + seed * 100_003

    def loss(step: int) -> Tensor:
        return images.label_loss(scenes.draw(batch, begin + step))

    if steps:
        optimiser = torch.optim.AdamW(images.parameters(), weight_decay=0.01)
        plan = Plan(steps, 2e-3)
        kit.fit(loss, optimiser, plan, kit.History(), module=images, on_step=on_step)
    return images, texts


@dataclass
class History(kit.History):
    """Also rSum of each validation, where there are some."""

    validation: list[float] = field(default_factory=list)


def drawn(plan: Plan, device: str = "cpu") -> Draw:
    """Scenes of a step, new ones each time."""
    begin = TRAINING + plan.seed * 100_003
    return lambda step: scenes.draw(plan.batch, begin + step).to(device)


def train(
    matcher: Matcher,
    plan: Plan,
    draw: Draw,
    *,
    on_step: Callable[[int, History], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> History:
    """Train to the end of the plan, from its beginning or from a checkpoint.

    Args:
        matcher: what is trained.
        plan: steps, rates, seed.
        draw: the pairs of a step.
        on_step: called with the steps done and the history so far.
        checkpoint: where to go on from, when it is there, and to write, with what must agree
            beside plan and configuration.

    Raises:
        CheckpointError: for a checkpoint of another plan, configuration or shape.
        InputError: for a loss that is no number.
    """
    # What begins with pretrained weights learns slower than what begins at random.
    old: list[nn.Parameter] = []
    new: list[nn.Parameter] = []
    for name, p in matcher.named_parameters():
        if p.requires_grad:
            (new if name.startswith("slimmer.") or ".to_shared." in name else old).append(p)
    groups: list[dict[str, Any]] = [{"params": old}, {"params": new, "speed": plan.head}]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01)
    kept = checkpoint and checkpoint.of({}, config=asdict(matcher.slimmer.config))

    def loss(step: int) -> Tensor:
        return matcher.loss(draw(step), hardest=plan.hardest_at(step))

    return kit.fit(
        loss, optimiser, plan, History(), module=matcher, on_step=on_step, checkpoint=kept
    )

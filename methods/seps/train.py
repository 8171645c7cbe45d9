"""Losses, the training loop, and the recall of a search.

Batch and noise of a step depend on the seed and the step alone, so that a training that was
interrupted goes on as if it had not been, and every model compared sees the same pairs.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Self

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor, nn

from ..errors import InputError
from ..kit import training as kit
from ..kit.checkpoint import Checkpoint
from ..kit.config import Share, configuration
from ..kit.seeds import seeded
from . import toy
from .model import Seps
from .pairs import Batch, Output
from .spec import RetrievalParams, TrainParams

TRAINING, TEACHING, HELD_OUT = 1_000_000, 2_000_000, 3_000_000  # where the scenes' seeds begin
Draw = Callable[[int], Batch]


def alignment_loss(
    S: Tensor, margin: float, *, hardest: float = 1.0, owners: Tensor | None = None
) -> Tensor:
    r"""Hinge loss of similarities (B, B), captions by images, whose diagonal are the true pairs.

    T' and I' are the hardest negatives of the batch. `hardest` is h, the weight of that loss
    against its mean over all negatives, by which a training begins: 1 is the source's. `owners`
    (B,) says whose image a pair has: captions of one image are no negatives of each other.

    Equation 6: $L_{align} = [\alpha - S(I,T) + S(I,T')]_+ + [\alpha - S(I,T) + S(I',T)]_+$

    Equation: $L = h L_{align} + (1 - h) \operatorname{mean}_{T', I'} L_{align}$

    Raises:
        InputError: when the batch has no negative pair.
    """
    if S.ndim != 2 or S.shape[0] != S.shape[1] or len(S) < 2:
        raise InputError(f"S is {tuple(S.shape)}; two or more images, each with its caption")
    true = S.diagonal()  # (B,)
    if owners is None:
        owners = torch.arange(len(S), device=S.device)
    same = owners[:, None] == owners  # (B, B)
    negatives = int((~same).sum())
    if not negatives:
        raise InputError("every pair of the batch has the same image; there is no negative")
    of_image = (margin - true[None] + S).relu().masked_fill(same, 0.0)  # (B, B)
    of_text = (margin - true[:, None] + S).relu().masked_fill(same, 0.0)  # (B, B)
    worst = of_image.amax(0).mean() + of_text.amax(1).mean()
    every = (of_image.sum() + of_text.sum()) / negatives
    return hardest * worst + (1 - hardest) * every


def ratio_loss(masks: list[Tensor], keep: float, lam: float | None = None) -> Tensor:
    r"""Squared distance of the share that stays, by masks (T, B, N), from `keep`: a scalar.

    `lam` weighs each branch: the paper's default is 1, by which two branches that keep half of the
    patches each are told to keep a quarter; without it they share 1.

    Equation 7: $L_{ratio} = (\rho - \lambda_1 \bar D_s - \lambda_2 \bar D_d)^2$
    """
    stays = torch.stack([mask.mean() for mask in masks]).sum()
    return (keep - stays * (1 / len(masks) if lam is None else lam)) ** 2


@configuration
class Plan(kit.Plan):
    """Steps, rates and batches of a training.

    Raises:
        InputError: for values with which nothing would be learnt.
    """

    least: float = 0.05
    batch: Annotated[int, Field(ge=2)] = 32
    # Share of the steps in which every negative counts alike.
    hardest_after: Share = 1.0
    # How much faster what is new (slimming model, projections) learns than the encoders under it.
    head: PositiveFloat = 10.0

    @classmethod
    def of(cls, params: RetrievalParams | TrainParams, seed: int) -> Self:
        """The plan in the parameters of a benchmark or a command."""
        planned = params.model_dump(include={"steps", "rate", "batch", "hardest_after"})
        return cls(seed=seed, **planned)

    def hardest_at(self, step: int) -> float:
        """Weight of the hardest negatives: 0 until `hardest_after`, then growing towards 1."""
        begin = self.hardest_after * self.steps
        return max(0.0, (step + 1 - begin) / (self.steps - begin)) if begin < self.steps else 0.0


@dataclass(frozen=True)
class Recall:
    """Percent of queries whose counterpart is among the first 1, 5 and 10."""

    to_text: tuple[float, ...]
    to_image: tuple[float, ...]

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
        InputError: for similarities that are no numbers or, without owners, not square; owners that
            are no images; an image without a caption.
    """
    if S.ndim != 2 or not S.numel() or not bool(torch.isfinite(S).all()):
        raise InputError(f"similarities must be finite (captions, images), not {tuple(S.shape)}")
    n, m = S.shape
    if owners is None:
        if n != m:
            raise InputError(f"{n} captions for {m} images: say by `owners` whose each caption is")
        owners = torch.arange(n, device=S.device)
    if (
        owners.shape != (n,)
        or owners.is_floating_point()
        or sorted(set(owners.tolist())) != list(range(m))
    ):
        raise InputError(f"owners give each of {n} captions one of {m} images, each image some")
    true = S.gather(1, owners[:, None])  # (n, 1)
    pair = owners[:, None] == torch.arange(m, device=S.device)  # (n, m)

    def within(ranks: Tensor) -> tuple[float, ...]:
        return tuple(100 * float((ranks <= k).double().mean()) for k in (1, 5, 10))

    best = S.masked_fill(~pair, -torch.inf).amax(0)  # (m,) of an image's captions
    others = (best <= S) & ~pair  # (n, m)
    return Recall(to_text=within(1 + others.sum(0)), to_image=within((true <= S).sum(1)))


def folds(S: Tensor, owners: Tensor, count: int = 5) -> Recall:
    r"""Recall averaged over `count` equal parts of the images, as COCO's 1K test is read.

    Equation: $R = \frac{1}{F} \sum_f R(S_f)$, S_f the f-th part's images with their captions

    Raises:
        InputError: when the images do not divide into so many parts.
    """
    m = S.shape[1]
    if count < 1 or m % count:
        raise InputError(f"{m} images do not divide into {count} folds")
    size, parts = m // count, []
    for begin in range(0, m, size):
        rows = (owners >= begin) & (owners < begin + size)
        part = recall(S[rows, begin : begin + size], owners[rows] - begin)
        parts.append((part.to_text, part.to_image))
    to_text, to_image = torch.tensor(parts, dtype=torch.float64).mean(0).tolist()
    return Recall(tuple(to_text), tuple(to_image))


class Matcher(nn.Module):
    """Two encoders and a slimming model between them."""

    def __init__(self, images: nn.Module, texts: nn.Module, slimmer: Seps) -> None:
        super().__init__()
        self.images, self.texts, self.slimmer = images, texts, slimmer

    def _queries(self, batch: Batch) -> list[Any]:
        """Return patches, captions and the text that guides, if there is one."""
        guides = self.texts(batch.dense) if self.slimmer.config.dense else None
        return [self.images(batch.images), self.texts(batch.sparse), guides]

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
        config, output = self.slimmer.config, self(batch)
        pairs = alignment_loss(
            output.similarity, config.margin, hardest=hardest, owners=batch.owners
        )
        return pairs + config.ratio_weight * ratio_loss(output.masks, config.keep, config.lam)

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
) -> tuple[toy.ImageEncoder, toy.TextEncoder]:
    """An image encoder trained on the labels of patches, and an untrained text encoder."""
    with seeded(seed):
        images, texts = toy.ImageEncoder(dim), toy.TextEncoder(dim)
    begin = TEACHING + seed * 100_003

    def loss(step: int) -> Tensor:
        return images.label_loss(toy.draw(batch, begin + step))

    if steps:
        optimiser = torch.optim.AdamW(images.parameters(), weight_decay=0.01)
        plan = Plan(steps, 2e-3)
        kit.fit(loss, optimiser, plan, kit.History(), module=images, on_step=on_step)
    return images, texts


@dataclass
class History(kit.History):
    """Also rSum of each validation, where there are some."""

    validation: list[float] = field(default_factory=list)


def drawn(plan: Plan, device: str = "cpu", *, exact: bool = False) -> Draw:
    """Return what draws new scenes at each step, of labels for an exact encoder."""
    begin = TRAINING + plan.seed * 100_003

    def draw(step: int) -> Batch:
        scenes = toy.draw(plan.batch, begin + step).to(device)
        return toy.labelled(scenes) if exact else scenes

    return draw


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
    saved = checkpoint and checkpoint.of({}, config=asdict(matcher.slimmer.config))

    def loss(step: int) -> Tensor:
        return matcher.loss(draw(step), hardest=plan.hardest_at(step))

    return kit.fit(
        loss, optimiser, plan, History(), module=matcher, on_step=on_step, checkpoint=saved
    )

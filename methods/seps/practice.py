"""Image–caption retrieval on users' own data: `train` and `evaluate`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from ..errors import InputError
from ..kit.checkpoint import load_weights, read_state, save_state, state_of
from ..kit.folders import training_in
from ..kit.seeds import generator, seeded
from ..spec import OnProgress
from .config import SepsConfig
from .data import TEST, Split, load, with_validation
from .model import candidate
from .pairs import Batch, Texts
from .pretrained import BertEncoder, VisionEncoder, pixels
from .spec import EvaluateParams, TrainParams
from .train import Draw, History, Matcher, Plan, Recall, folds, recall
from .train import train as train_matcher

TOGETHER = 64  # images, or texts, that are encoded at once
CAPTIONS = 5000  # that meet an image at once
LEAK = (
    "each caption came with the dense text of its own image, so a query describes its target: "
    "compare a model without it (--set candidate=seps_learnt)"
)


class Retriever(Matcher):
    """A matcher on encoders with weights of their own."""

    images: VisionEncoder
    texts: BertEncoder


def build(params: TrainParams | EvaluateParams, name: str, shape: dict[str, Any]) -> Retriever:
    """Encoders of the folders given, and the slimming model called `name` on top of them.

    Raises:
        InputError: for weights that cannot be read or do not fit.
    """
    vision = VisionEncoder(params.vision, shape["dim"])
    text = BertEncoder(params.text, shape["dim"])
    base = SepsConfig(**shape, patches=vision.patches, cls=vision.cls)
    return Retriever(vision, text, candidate(name, base))


def batches(matcher: Retriever, split: Split, plan: Plan, words: int, device: str) -> Draw:
    """Pairs of a step: all captions once an epoch, in an order of its own.

    Raises:
        InputError: for batches that might hold captions of one image alone, or more than there are.
    """
    most = max(split.owners.count(0), len(split.captions) // len(split.images))
    if not most < plan.batch <= len(split.captions):
        raise InputError(
            f"batch is {plan.batch}; with {most} captions an image and {len(split.captions)} in "
            f"all, {most + 1} to {len(split.captions)} pairs have a negative each"
        )
    each = len(split.captions) // plan.batch

    def draw(step: int) -> Batch:
        epoch, batch = divmod(step, each)
        order = torch.randperm(len(split.captions), generator=generator(plan.seed + 7 * epoch))
        rows = order[batch * plan.batch : (batch + 1) * plan.batch].tolist()
        chance = generator(plan.seed * 1_000_003 + step)
        owners = [split.owners[i] for i in rows]
        dense = matcher.slimmer.config.dense
        return Batch(
            pixels([split.images[i] for i in owners], matcher.images.side, chance),
            matcher.texts.ids([split.captions[i] for i in rows], words, chance),
            matcher.texts.ids([split.dense[i] for i in owners], words, chance) if dense else None,
            torch.tensor(owners),
        ).to(device)

    return draw


@torch.no_grad()
def similarities(
    matcher: Retriever, split: Split, words: int, on_progress: Callable[[float], None]
) -> Tensor:
    r"""All captions (n) of a split with all its images (m): (n, m), on the CPU.

    Equation: $S_{i j} = s(c_i, v_j)$
    """
    training = matcher.training
    matcher.eval()
    device = next(matcher.parameters()).device
    config, columns = matcher.slimmer.config, []
    captions = _encoded(matcher, split.captions, words)
    dense = _encoded(matcher, split.dense, words) if config.dense else None
    owners = torch.tensor(split.owners, device=device)
    for begin in range(0, len(split.images), TOGETHER):
        rows = slice(begin, begin + TOGETHER)
        patches = matcher.images(pixels(list(split.images[rows]), matcher.images.side).to(device))
        parts = []
        for first in range(0, len(owners), CAPTIONS):
            part = slice(first, first + CAPTIONS)
            whose = rows if config.dense_of == "image" else owners[part]
            long = None if dense is None else dense[whose]
            parts.append(matcher.slimmer.all_pairs(patches, captions[part], long))
        columns.append(torch.cat(parts).cpu())
        on_progress(min(1.0, (begin + TOGETHER) / len(split.images)))
    matcher.train(training)
    return torch.cat(columns, 1)


def _encoded(matcher: Retriever, texts: tuple[str, ...], words: int) -> Texts:
    device = next(matcher.parameters()).device
    ids = matcher.texts.ids(list(texts), words).to(device)
    parts = [matcher.texts(part) for part in torch.split(ids, TOGETHER)]
    return Texts(torch.cat([p.words for p in parts]), torch.cat([p.real for p in parts]))


def train(params: TrainParams, device: str, on_progress: OnProgress) -> str:
    """Train a matcher and keep the one that is best on validation; returns a summary.

    Raises:
        InputError: for data, weights or settings that do not fit, before any work.
        CheckpointError: for a checkpoint of another run.
    """
    out, checkpoint = Path(params.out), training_in(params.out, params.every)
    shape = params.model_dump(include={"dim", "keep", "aggregate"})
    with seeded(params.seed):
        matcher = build(params, params.candidate, shape).to(device)
    split, dev, left_out = with_validation(
        Path(params.data), params.dataset, params.held_out,
        dense=matcher.slimmer.config.dense, skip=params.skip,
    )  # fmt: skip
    plan = Plan.of(params, params.seed)
    draw = batches(matcher, split, plan, params.words, device)
    about = {"candidate": params.candidate, "shape": shape, "words": params.words}

    def on_step(step: int, history: History) -> None:
        status = f"loss {history.loss[-1]:.3f}"
        if step % params.judge_every == 0 or step == plan.steps:
            S = similarities(matcher, dev, params.words, lambda _: None)
            history.validation.append(recall(S, torch.tensor(dev.owners)).total)
            if history.validation[-1] == max(history.validation):
                save_state(out / "best.pt", {"about": about, "weights": state_of(matcher)})
        if history.validation:
            status += f", validation rSum {history.validation[-1]:.1f}"
        on_progress(step, plan.steps, status)

    read = {"captions": crc32(repr(split.captions).encode()), "words": params.words}
    checkpoint = checkpoint.of({}, reading=read)
    history = train_matcher(matcher, plan, draw, on_step=on_step, checkpoint=checkpoint)
    best = history.validation.index(max(history.validation))
    return (
        f"{len(split.captions)} captions of {len(split.images)} images, {len(left_out)} images "
        f"left out; {len(dev.images)} for validation: rSum {history.validation[best]:.1f} at "
        f"validation {best + 1} of {len(history.validation)}; best.pt in {out}"
    )


def evaluate(params: EvaluateParams, device: str, on_progress: OnProgress) -> str:
    """Search a split both ways with the matcher that `train` kept; returns the recalls.

    Raises:
        InputError: for data or weights that do not fit, before any work.
        CheckpointError: for a file that is no checkpoint, or of other encoders.
    """
    path = Path(params.matcher)
    if not path.is_file():
        raise InputError(f"no file at {params.matcher!r}: give the best.pt that train wrote")
    state = read_state(path)
    about = state.get("about", {})
    if not {"candidate", "shape", "words"} <= about.keys():
        raise InputError(f"{path.name} is not what train wrote as best.pt")
    matcher = build(params, about["candidate"], about["shape"]).to(device)
    load_weights(matcher, state["weights"], path.name)
    config = matcher.slimmer.config
    data, name = Path(params.data), params.split or TEST[params.dataset]
    split, left_out = load(data, params.dataset, name, dense=config.dense, skip=params.skip)
    S = similarities(
        matcher, split, about["words"], lambda done: on_progress(done, 1.0, "images searched")
    )
    owners = torch.tensor(split.owners)
    lines = [
        f"{len(split.captions)} captions of {len(split.images)} images, {len(left_out)} left out",
        format_recall("all at once", recall(S, owners)),
    ]
    if params.dataset == "coco" and len(split.images) % 5 == 0:
        lines.append(format_recall("mean of 5 folds", folds(S, owners)))
    if config.dense and config.dense_of == "caption":
        lines.append(LEAK)
    return "\n".join(lines)


def format_recall(name: str, recalls: Recall) -> str:
    """``all: image to text R@1 86.1, R@5 93.7, ...; rSum 560.9``."""
    ways = (("image to text", recalls.to_text), ("text to image", recalls.to_image))
    status = [f"{way} R@1 {a:.1f}, R@5 {b:.1f}, R@10 {c:.1f}" for way, (a, b, c) in ways]
    return f"{name}: {'; '.join(status)}; rSum {recalls.total:.1f}"

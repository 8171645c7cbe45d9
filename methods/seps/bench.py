"""How well images and captions find each other: `retrieval`, trained on the spot."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from methods.context import Context
from methods.measure.statistics import over_seeds
from methods.protocol import Axis, Variant
from methods.seps import baselines, checks, scenes
from methods.seps.config import SepsConfig, SepsError
from methods.seps.picture import picture
from methods.seps.spec import RetrievalParams
from methods.seps.train import HELD_OUT, OnStep, Plan, Recall, assemble, teach, train

PLACES = tuple(f"{way}, R@{k}" for way in ("image to text", "text to image") for k in (1, 5, 10))
VARIANTS = (
    Variant(name="whole", label="no slimming"),
    Variant(name="random", label="random patches"),
    Variant(name="laps", label="LAPS-like"),
    Variant(name="open_source", label="open_source, dense text of the caption's image"),
    Variant(name="paper", label="paper as written, dense text of the caption's image"),
    Variant(name="seps_learnt", label="ours, learnt score alone", ours=True),
    Variant(name="seps_sparse", label="ours, sparse text only", ours=True),
    Variant(name="seps_image", label="ours, dense text of each image", ours=True),
    Variant(name="seps", label="ours, dense text of the caption's image", ours=True),
)


def retrieval(ctx: Context, params: RetrievalParams) -> None:
    """Train every candidate `seeds` times from the same taught encoders, and search."""
    ctx.check_all("gate", checks.gate(ctx.device))
    base = SepsConfig(
        dim=params.dim,
        patches=scenes.GRID**2,
        keep=params.keep,
        aggregate=params.aggregate,
    )
    found: dict[str, list[Recall]] = {variant.name: [] for variant in VARIANTS}
    each = params.teach_steps + len(VARIANTS) * params.steps
    for seed in range(params.seeds):
        began = seed * each
        own = ctx.seed + seed
        tick = _ticker(ctx, began, params.seeds * each, f"patch labels, seed {own}")
        taught = teach(params.dim, params.teach_steps, own, params.batch, tick)
        held_out = scenes.draw(params.judged, HELD_OUT + own).to(ctx.device)
        for index, variant in enumerate(VARIANTS):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(own)
                slimmer = baselines.candidate(variant.name, base)
            matcher = assemble(taught, slimmer).to(ctx.device)
            done = began + params.teach_steps + index * params.steps
            tick = _ticker(ctx, done, params.seeds * each, f"{variant.label}, seed {own}")
            plan = Plan(
                params.steps,
                params.batch,
                params.rate,
                hardest_after=params.hardest_after,
                seed=own,
            )
            train(matcher, plan, on_step=tick, checkpoint=_checkpoint(variant.name, own))
            torch.manual_seed(own)  # random patches are chosen in evaluation, too
            found[variant.name].append(matcher.judge(held_out))
            if variant.name == "seps_sparse" and not seed:
                ctx.artefact("patches.svg", picture(matcher, held_out))
    _report(ctx, found)


def _ticker(ctx: Context, done: int, total: int, what: str) -> OnStep:
    def tick(step: int, _of: int, loss: float) -> None:
        ctx.progress(done + step, total, f"{what}: loss {loss:.3f}")

    return tick


def _checkpoint(name: str, seed: int) -> Path | None:
    """Where a training is kept to go on from, if ASSAY_CHECKPOINTS names a folder.

    Raises:
        SepsError: when it names something else.
    """
    folder = os.environ.get("ASSAY_CHECKPOINTS", "")
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise SepsError(f"ASSAY_CHECKPOINTS is {folder!r}, which is no folder")
    return Path(folder) / f"seps-{name}-{seed}.pt"


def _report(ctx: Context, found: dict[str, list[Recall]]) -> None:
    caption = (
        "Held-out scenes, trained with equal steps on equal scenes. Where a caption brings the "
        "dense text of its own image, queries describe their target: those rows are no measure of "
        "the method. The sparse-only row is."
    )
    rsum = ctx.series(
        "rsum",
        "Sum of the six recalls",
        x=Axis(label="scenes", scale="category"),
        y=Axis(label="rSum", least=0.0, most=600.0),
        direction="higher",
        variants=VARIANTS,
        baseline="whole",
        caption=caption,
    )
    recalls = ctx.series(
        "recall",
        "Recall both ways",
        x=Axis(label="direction and depth", scale="category"),
        y=Axis(label="recall", unit="%", least=0.0, most=100.0),
        direction="higher",
        variants=VARIANTS,
        baseline="whole",
        caption=caption,
    )
    totals = {name: [one.total for one in many] for name, many in found.items()}
    parts = {
        name: list(zip(*(one.to_text + one.to_image for one in many), strict=True))
        for name, many in found.items()
    }
    for variant in VARIANTS:
        baseline = variant.name != "whole"
        rsum.add(
            over_seeds(
                variant.name,
                "held out",
                totals[variant.name],
                baseline=totals["whole"] if baseline else None,
            )
        )
        for index, place in enumerate(PLACES):
            recalls.add(
                over_seeds(
                    variant.name,
                    place,
                    parts[variant.name][index],
                    baseline=parts["whole"][index] if baseline else None,
                )
            )

"""How well images and captions find each other, trained on the spot, and what each part adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from methods.context import Context
from methods.kit.checkpoint import kept_in
from methods.kit.report import Stages, add_seeds
from methods.kit.seeds import seeded
from methods.measure import flops
from methods.measure.statistics import MIN_BLOCKS, MIN_RUNS, Interval, geometric_interval
from methods.measure.timing import compare
from methods.protocol import Axis, Variant
from methods.seps import checks, scenes
from methods.seps.baselines import candidate
from methods.seps.config import SepsConfig
from methods.seps.model import Seps
from methods.seps.picture import picture
from methods.seps.recall import Recall
from methods.seps.spec import RetrievalParams
from methods.seps.train import HELD_OUT, Asked, Matcher, Plan, assemble, drawn, teach, train

RSUM = Axis(label="rSum", least=0.0, most=600.0)
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
ABLATIONS = (
    Variant(name="whole", label="no slimming"),
    Variant(name="seps_learnt", label="ours: slim, then merge", ours=True),
    Variant(name="kept", label="slim without merging"),
    Variant(name="extra", label="no aggregation, one extra token"),
    Variant(name="merged", label="merge without slimming"),
    Variant(name="fewer", label="ours, half as many aggregated tokens"),
    Variant(name="more", label="ours, twice as many aggregated tokens"),
    Variant(name="tokens_look", label="alignment: tokens look for words alone"),
    Variant(name="words_look", label="alignment: words look for tokens alone"),
    Variant(name="dense_alone", label="no slimming, dense text of the image as the query"),
    Variant(name="seps", label="ours, two texts, lambda 1/2"),
    Variant(name="lambda_1", label="ours, two texts, lambda 1"),
)
FRONT = ("whole", "seps_learnt", "kept", "extra", "merged", "fewer", "more")
SEARCHED = 16  # images and captions of the search that is counted and timed
MARGIN = 0.97  # not inferior: the interval of the ratio to no slimming lies above; set beforehand
CAPTION = (
    "Held-out scenes, trained with equal steps on equal scenes. Where a caption brings the dense "
    "text of its own image, queries describe their target: those rows are no measure of the method."
)


def retrieval(ctx: Context, params: RetrievalParams) -> None:
    """Train every candidate `seeds` times from the same taught encoders, and search."""
    found, _ = _compare(ctx, params, VARIANTS, "seps_sparse")
    places = {
        (name, place): values
        for name, many in found.items()
        for place, values in zip(
            PLACES, zip(*(one.to_text + one.to_image for one in many), strict=True), strict=True
        )
    }
    axis = Axis(label="direction and depth", scale="category")
    percent = Axis(label="recall", unit="%", least=0.0, most=100.0)
    _show(ctx, "recall", "Recall both ways", VARIANTS, places, x=axis, y=percent)


def ablations(ctx: Context, params: RetrievalParams) -> None:
    """What slimming, merging, each half of the alignment and lambda are worth, and the fronts."""
    found, made = _compare(ctx, params, ABLATIONS, "")
    totals = {name: [one.total for one in many] for name, many in found.items()}
    for variant in ABLATIONS[1:]:
        pairs = zip(totals[variant.name], totals["whole"], strict=True)
        times = geometric_interval([one / other for one, other in pairs])
        ctx.log(
            f"{variant.label}: {times.value:.3f} times no slimming ({times.low:.3f} to "
            f"{times.high:.3f}), {said(times, params.seeds)}, margin {MARGIN}"
        )
    _fronts(ctx, totals, made)


def _fronts(ctx: Context, totals: dict[str, list[float]], made: dict[str, Seps]) -> None:
    """rSum against tokens and against a search's operations, counted, and time, measured."""
    shown = tuple(variant for variant in ABLATIONS if variant.name in FRONT)
    searches = {name: _search(ctx, made[name]) for name in FRONT}
    timings = compare(
        searches, device=ctx.device, seed=ctx.seed, blocks=MIN_BLOCKS, samples=1, max_warm_up_s=0.5
    )
    points = timings.points("all pairs", baseline="whole")
    ctx.series(
        "search_time",
        f"Time of a search, {SEARCHED} images x {SEARCHED} captions",
        x=Axis(label="search", scale="category"),
        y=Axis(label="time", unit="ms", scale="log"),
        direction="lower",
        variants=shown,
        baseline="whole",
        caption="Images and captions are encoded before; slimming counts.",
    ).add(*points)
    counted = {name: flops.count(call) / SEARCHED**2 for name, call in searches.items()}
    fronts = (
        ("front", "tokens", "tokens an image", {name: made[name].tokens for name in FRONT}),
        ("search", "operations of a search", "operations a pair", counted),
        ("front_time", "time of a search", "ms", {p.variant: p.median for p in points}),
    )
    for name, what, label, at in fronts:
        table = {(n, float(x)): totals[n] for n, x in at.items()}
        axis = Axis(label=label)
        _show(ctx, name, f"rSum against {what}", shown, table, x=axis, baseline=None)


def said(times: Interval, seeds: int) -> str:
    """Whether a ratio to no slimming shows that nothing is lost, by the margin set beforehand."""
    if seeds >= MIN_RUNS["seeds"] and times.low >= MARGIN:
        return "not inferior"
    return "inferior" if seeds >= MIN_RUNS["seeds"] and times.high < MARGIN else "not shown"


def _search(ctx: Context, model: Seps) -> Callable[[], Tensor]:
    """Comparing prepared images with captions, the slimming included."""
    model = model.to(ctx.device).eval()
    given = checks.inputs(
        ctx.device, model.config, batch=SEARCHED, words=scenes.SPARSE_WORDS, exact=False
    )
    return partial(model.all_pairs, **given, images=SEARCHED)


def _variant(name: str, base: SepsConfig) -> Seps:
    ours = candidate("seps_learnt", base).config
    changes: dict[str, dict[str, object]] = {
        "kept": {"tokens": "kept"},
        "extra": {"tokens": "extra"},
        "merged": {"keep": 1.0, "aggregate": base.keep * base.aggregate},
        "fewer": {"aggregate": base.aggregate / 2},
        "more": {"aggregate": min(1.0, base.aggregate * 2)},
        "tokens_look": {"halves": "tokens"},
        "words_look": {"halves": "words"},
    }
    if name in changes:
        return Seps(replace(ours, **changes[name]))  # type: ignore[arg-type]
    if name == "lambda_1":
        return Seps(replace(candidate("seps", base).config, lam=1.0))
    return candidate("whole" if name == "dense_alone" else name, base)


def _compare(
    ctx: Context, params: RetrievalParams, variants: tuple[Variant, ...], drawn_of: str
) -> tuple[dict[str, list[Recall]], dict[str, Seps]]:
    """Recalls of each seed and the last model of every variant, trained from one start a seed.

    Their sums are shown.
    """
    torch.set_num_threads(params.threads or torch.get_num_threads())
    ctx.check_all("gate", checks.gate(ctx.device))
    base = SepsConfig(
        dim=params.dim, patches=scenes.GRID**2, keep=params.keep, aggregate=params.aggregate
    )
    found: dict[str, list[Recall]] = {variant.name: [] for variant in variants}
    made: dict[str, Seps] = {}
    stages = Stages(ctx, params.seeds * (params.teach_steps + len(variants) * params.steps))
    for own in range(ctx.seed, ctx.seed + params.seeds):
        tick = stages.begin(params.teach_steps, f"patch labels, seed {own}")
        taught = teach(params.dim, params.teach_steps, own, params.batch, tick)
        held_out = scenes.draw(params.judged, HELD_OUT + own).to(ctx.device)
        for variant in variants:
            name = variant.name
            with seeded(own):
                made[name] = _variant(name, base)
            asks: Asked = "dense" if name == "dense_alone" else "sparse"
            matcher: Matcher = assemble(taught, made[name], asks).to(ctx.device)
            plan = Plan(
                params.steps, params.batch, params.rate, hardest_after=params.hardest_after,
                seed=own,
            )  # fmt: skip
            train(
                matcher,
                plan,
                drawn(plan, ctx.device),
                on_step=stages.begin(params.steps, f"{variant.label}, seed {own}"),
                checkpoint=kept_in(params.folder, f"{name}-{own}"),
            )
            with seeded(own):  # random patches are chosen in evaluation, too
                found[name].append(matcher.judge(held_out))
            if name == drawn_of and own == ctx.seed:
                ctx.artefact("patches.svg", picture(matcher, held_out))
    sums = {(name, "held out"): [one.total for one in many] for name, many in found.items()}
    axis = Axis(label="scenes", scale="category")
    _show(ctx, "rsum", "Sum of the six recalls", variants, sums, x=axis)
    return found, made


def _show(
    ctx: Context,
    name: str,
    title: str,
    variants: tuple[Variant, ...],
    table: Mapping[tuple[str, Any], Sequence[float]],
    *,
    x: Axis,
    y: Axis = RSUM,
    baseline: str | None = "whole",
) -> None:
    """A point for each variant and x, from its seeds."""
    series = ctx.series(
        name,
        title,
        x=x,
        y=y,
        direction="higher",
        variants=variants,
        baseline=baseline,
        caption=CAPTION,
    )
    add_seeds(series, table, baseline)

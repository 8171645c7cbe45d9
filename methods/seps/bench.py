"""How well images and captions find each other, trained on the spot, and what each part adds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from methods.context import Context, OpenSeries
from methods.kit.checkpoint import kept_in
from methods.kit.report import Stages, over_seeds
from methods.kit.seeds import seeded
from methods.measure import flops
from methods.measure.statistics import MIN_RUNS, Interval, geometric_interval
from methods.protocol import Axis, Variant
from methods.seps import checks, scenes
from methods.seps.baselines import candidate
from methods.seps.config import SepsConfig
from methods.seps.model import Seps
from methods.seps.picture import picture
from methods.seps.recall import Recall
from methods.seps.spec import RetrievalParams
from methods.seps.train import HELD_OUT, Asked, Matcher, Plan, assemble, drawn, teach, train

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
MARGIN = 0.97  # not inferior: the interval of the ratio to no slimming lies above; set beforehand
CAPTION = (
    "Held-out scenes, trained with equal steps on equal scenes. Where a caption brings the dense "
    "text of its own image, queries describe their target: those rows are no measure of the method."
)


def retrieval(ctx: Context, params: RetrievalParams) -> None:
    """Train every candidate `seeds` times from the same taught encoders, and search."""
    found, _ = _compare(ctx, params, VARIANTS, "seps_sparse")
    _rsum(ctx, VARIANTS, found)
    recalls = _series(ctx, "recall", "Recall both ways", "direction and depth", VARIANTS)
    parts = {
        name: list(zip(*(one.to_text + one.to_image for one in many), strict=True))
        for name, many in found.items()
    }
    for name, values in parts.items():
        for place, own, whole in zip(PLACES, values, parts["whole"], strict=True):
            recalls.add(over_seeds(name, place, own, baseline=None if name == "whole" else whole))


def ablations(ctx: Context, params: RetrievalParams) -> None:
    """What slimming, merging, each half of the alignment and lambda are worth, and the front."""
    found, made = _compare(ctx, params, ABLATIONS, "")
    _rsum(ctx, ABLATIONS, found)
    whole = [one.total for one in found["whole"]]
    for variant in ABLATIONS[1:]:
        pairs = zip(found[variant.name], whole, strict=True)
        times = geometric_interval([one.total / other for one, other in pairs])
        ctx.log(
            f"{variant.label}: {times.value:.3f} times no slimming ({times.low:.3f} to "
            f"{times.high:.3f}), {said(times, params.seeds)}, margin {MARGIN}"
        )
    shown = tuple(variant for variant in ABLATIONS if variant.name in FRONT)
    tokens = _series(ctx, "front", "rSum against tokens", "tokens an image", shown)
    searched = _series(
        ctx, "search", "rSum against operations of a search", "operations a pair", shown
    )
    for name in FRONT:
        totals = [one.total for one in found[name]]
        tokens.add(over_seeds(name, float(made[name].tokens), totals))
        searched.add(over_seeds(name, float(_operations(made[name])), totals))


def said(times: Interval, seeds: int) -> str:
    """Whether a ratio to no slimming shows that nothing is lost, by the margin set beforehand."""
    if seeds >= MIN_RUNS["seeds"] and times.low >= MARGIN:
        return "not inferior"
    return "inferior" if seeds >= MIN_RUNS["seeds"] and times.high < MARGIN else "not shown"


def _operations(model: Seps) -> float:
    """Operations of comparing a prepared image with a caption, counted, the slimming included."""
    given = checks.inputs("cpu", model.config, batch=16, words=scenes.SPARSE_WORDS, exact=False)
    return flops.count(partial(model.all_pairs, **given, images=16)) / 16**2


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
    """Recalls of each seed and the last model of every variant, trained from one start a seed."""
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
    return found, made


def _series(
    ctx: Context, name: str, title: str, x: str, variants: tuple[Variant, ...]
) -> OpenSeries:
    ranked = name == "recall"
    return ctx.series(
        name,
        title,
        x=Axis(label=x, scale="linear" if name in ("front", "search") else "category"),
        y=Axis(
            label="recall" if ranked else "rSum",
            unit="%" if ranked else "",
            least=0.0,
            most=100.0 if ranked else 600.0,
        ),
        direction="higher",
        variants=variants,
        baseline=None if name in ("front", "search") else "whole",
        caption=CAPTION,
    )


def _rsum(ctx: Context, variants: tuple[Variant, ...], found: dict[str, list[Recall]]) -> None:
    series = _series(ctx, "rsum", "Sum of the six recalls", "scenes", variants)
    totals = {name: [one.total for one in many] for name, many in found.items()}
    for name, values in totals.items():
        baseline = None if name == "whole" else totals["whole"]
        series.add(over_seeds(name, "held out", values, baseline=baseline))

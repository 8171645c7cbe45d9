"""How well images and captions find each other, trained on the spot, and what each part adds."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from methods.context import Context
from methods.kit.checkpoint import kept_in
from methods.kit.report import Charts, Stages
from methods.kit.seeds import seeded
from methods.measure import flops
from methods.measure.statistics import MIN_BLOCKS, MIN_RUNS, Interval, geometric_interval
from methods.measure.timing import compare
from methods.seps import checks, scenes
from methods.seps.baselines import candidate
from methods.seps.config import SepsConfig
from methods.seps.model import Seps
from methods.seps.picture import picture
from methods.seps.recall import Recall
from methods.seps.spec import RetrievalParams
from methods.seps.train import HELD_OUT, Asked, Matcher, Plan, assemble, drawn, teach, train

PLACES = tuple(f"{way}, R@{k}" for way in ("image to text", "text to image") for k in (1, 5, 10))
FRONT = ("whole", "seps_learnt", "kept", "extra", "merged", "fewer", "more")
SEARCHED = 16  # images and captions of the search that is counted and timed
MARGIN = 0.97  # not inferior: the interval of the ratio to no slimming lies above; set beforehand


def retrieval(ctx: Context, params: RetrievalParams) -> None:
    """Train every candidate `seeds` times from the same taught encoders, and search."""
    charts = Charts.of(ctx, __file__)
    found, _ = _compare(charts, params, "retrieval", "seps_sparse")
    places = {
        (name, place): [(one.to_text + one.to_image)[i] for one in many]
        for name, many in found.items()
        for i, place in enumerate(PLACES)
    }
    charts.seeds("recall", places)


def ablations(ctx: Context, params: RetrievalParams) -> None:
    """What slimming, merging, each half of the alignment and lambda are worth, and the fronts."""
    charts = Charts.of(ctx, __file__)
    found, made = _compare(charts, params, "ablations", "")
    totals = {name: [one.total for one in many] for name, many in found.items()}
    for variant in charts.variants("ablations", totals.keys() - {"whole"}):
        pairs = zip(totals[variant.name], totals["whole"], strict=True)
        times = geometric_interval([one / other for one, other in pairs])
        ctx.log(
            f"{variant.label}: {times.value:.3f} times no slimming ({times.low:.3f} to "
            f"{times.high:.3f}), {said(times, params.seeds)}, margin {MARGIN}"
        )
    _fronts(charts, totals, made)


def _fronts(charts: Charts, totals: dict[str, list[float]], made: dict[str, Seps]) -> None:
    """rSum against tokens and against a search's operations, counted, and time, measured."""
    ctx = charts.ctx
    searches = {name: _search(ctx, made[name]) for name in FRONT}
    timings = compare(
        searches, device=ctx.device, seed=ctx.seed, blocks=MIN_BLOCKS, samples=1, max_warm_up_s=0.5
    )
    points = timings.points("all pairs", baseline="whole")
    charts.open("search_time", FRONT, searched=SEARCHED).add(*points)
    fronts: dict[str, dict[str, float]] = {
        "front": {name: made[name].tokens for name in FRONT},
        "search": {name: flops.count(call) / SEARCHED**2 for name, call in searches.items()},
        "front_time": {point.variant: point.median for point in points},
    }
    for name, at in fronts.items():
        charts.seeds(name, {(variant, float(x)): totals[variant] for variant, x in at.items()})


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


def _model(name: str, base: SepsConfig) -> Seps:
    """The model of a row of either benchmark: a candidate, or one with a part changed."""
    changes: dict[str, dict[str, Any]] = {
        "kept": {"tokens": "kept"},
        "extra": {"tokens": "extra"},
        "merged": {"keep": 1.0, "aggregate": base.keep * base.aggregate},
        "fewer": {"aggregate": base.aggregate / 2},
        "more": {"aggregate": min(1.0, base.aggregate * 2)},
        "tokens_look": {"halves": "tokens"},
        "words_look": {"halves": "words"},
    }
    if name in changes:
        return Seps(replace(candidate("seps_learnt", base).config, **changes[name]))
    if name == "lambda_1":
        return Seps(replace(candidate("seps", base).config, lam=1.0))
    return candidate("whole" if name == "dense_alone" else name, base)


def _compare(
    charts: Charts, params: RetrievalParams, listed: str, drawn_of: str
) -> tuple[dict[str, list[Recall]], dict[str, Seps]]:
    """Recalls of each seed and the last model of every variant, trained from one start a seed.

    Their sums are shown.
    """
    ctx = charts.ctx
    torch.set_num_threads(params.threads or torch.get_num_threads())
    ctx.check_all("gate", checks.gate(ctx.device))
    base = SepsConfig(
        dim=params.dim, patches=scenes.GRID**2, keep=params.keep, aggregate=params.aggregate
    )
    variants = charts.variants(listed)
    found: dict[str, list[Recall]] = {variant.name: [] for variant in variants}
    made: dict[str, Seps] = {}
    stages = Stages(ctx, params.seeds * (params.teach_steps + len(variants) * params.steps))
    for own in range(ctx.seed, ctx.seed + params.seeds):
        plan = Plan.of(params, own)
        tick = stages.begin(params.teach_steps, f"patch labels, seed {own}")
        taught = teach(params.dim, params.teach_steps, own, params.batch, tick)
        held_out = scenes.draw(params.judged, HELD_OUT + own).to(ctx.device)
        for name, many in found.items():
            with seeded(own):
                made[name] = _model(name, base)
            asks: Asked = "dense" if name == "dense_alone" else "sparse"
            matcher: Matcher = assemble(taught, made[name], asks).to(ctx.device)
            train(
                matcher,
                plan,
                drawn(plan, ctx.device),
                on_step=stages.begin(params.steps, f"{name}, seed {own}"),
                checkpoint=kept_in(params.folder, f"{name}-{own}"),
            )
            with seeded(own):  # random patches are chosen in evaluation, too
                many.append(matcher.judge(held_out))
            if name == drawn_of and own == ctx.seed:
                ctx.artefact("patches.svg", picture(matcher, held_out))
    sums = {(name, "held out"): [one.total for one in many] for name, many in found.items()}
    charts.seeds("rsum", sums, variants=variants)
    return found, made

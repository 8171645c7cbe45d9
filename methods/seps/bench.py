"""How well images and captions find each other, what each part adds, and what the search costs."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..context import Context, OpenSeries
from ..kit.checkpoint import kept_in
from ..kit.compare import relative
from ..kit.images import Panel, panels
from ..kit.report import Charts, Stages
from ..kit.seeds import randn, seeded
from ..measure import flops, memory
from ..measure.statistics import MIN_BLOCKS, MIN_RUNS, Interval, geometric_interval
from ..measure.timing import Comparison, compare, time_all
from ..spec import Case
from . import checks, toy
from .checks import pairwise
from .config import SepsConfig
from .model import Seps, candidate
from .pairs import Batch, Texts
from .spec import CostParams, RetrievalParams
from .train import HELD_OUT, Asked, Matcher, Plan, Recall, drawn, teach, train

PLACES = tuple(f"{way}, R@{k}" for way in ("image to text", "text to image") for k in (1, 5, 10))
FRONT = ("whole", "seps_learnt", "kept", "extra", "merged", "fewer", "more")
SEARCHED = 16  # images and captions of the search that is counted and timed
MARGIN = 0.97  # not inferior: the ratio to no slimming has its interval above; set beforehand


def retrieval(ctx: Context, params: RetrievalParams) -> None:
    """Train every candidate `seeds` times from the same taught encoders, and search."""
    charts = Charts(ctx, __file__)
    recalls, _ = _compare(charts, params, "retrieval", "seps_sparse")
    table = {
        (name, measure): [(recall.to_text + recall.to_image)[i] for recall in seeds]
        for name, seeds in recalls.items()
        for i, measure in enumerate(PLACES)
    }
    charts.seeds("recall", table)


def ablations(ctx: Context, params: RetrievalParams) -> None:
    """What slimming, merging, each half of the alignment and lambda are worth, and the fronts."""
    charts = Charts(ctx, __file__)
    recalls, models = _compare(charts, params, "ablations", "")
    totals = {name: [recall.total for recall in seeds] for name, seeds in recalls.items()}
    for variant in charts.variants("ablations", totals.keys() - {"whole"}):
        pairs = zip(totals[variant.name], totals["whole"], strict=True)
        times = geometric_interval([ours / whole for ours, whole in pairs])
        ctx.log(
            f"{variant.label}: {times.value:.3f} times no slimming ({times.low:.3f} to "
            f"{times.high:.3f}), {comparison(times, params.seeds)}, margin {MARGIN}"
        )
    _fronts(charts, totals, models)


def _fronts(charts: Charts, totals: dict[str, list[float]], models: dict[str, Seps]) -> None:
    """rSum against tokens and against a search's operations, counted, and time, measured."""
    ctx = charts.ctx
    searches = {name: _search(ctx, name, models[name]) for name in FRONT}
    timings = compare(
        searches, device=ctx.device, seed=ctx.seed, blocks=MIN_BLOCKS, samples=1, max_warm_up_s=0.5
    )
    points = timings.points("all pairs", baseline="whole")
    charts.open("search_time", FRONT, searched=SEARCHED).add(*points)
    fronts: dict[str, dict[str, float]] = {
        "front": {name: models[name].tokens for name in FRONT},
        "search": {name: flops.count(call) / SEARCHED**2 for name, call in searches.items()},
        "front_time": {point.variant: point.median for point in points},
    }
    for name, at in fronts.items():
        charts.seeds(name, {(variant, float(x)): totals[variant] for variant, x in at.items()})


def comparison(times: Interval, seeds: int) -> str:
    """Whether a ratio to no slimming shows that nothing is lost, by the margin set beforehand."""
    if seeds >= MIN_RUNS["seeds"] and times.low >= MARGIN:
        return "not inferior"
    return "inferior" if seeds >= MIN_RUNS["seeds"] and times.high < MARGIN else "not shown"


def _search(ctx: Context, name: str, model: Seps) -> Callable[[], Tensor]:
    """A search of captions and images, slimming included, after it is checked."""
    model = model.to(ctx.device).eval()
    given = checks.inputs(
        ctx.device, model.config, batch=SEARCHED, words=toy.SPARSE_WORDS, exact=False
    )
    call = partial(model.all_pairs, **given, images=SEARCHED)
    ctx.check_all("at_shape", at_shape({name: call}, {name: model}, **given))
    return call


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
    ctx.check_all("gate", checks.gate(ctx.device))
    sizes = params.model_dump(include={"dim", "keep", "aggregate"})
    base = SepsConfig(patches=toy.GRID**2, **sizes)
    variants = charts.variants(listed)
    recalls: dict[str, list[Recall]] = {variant.name: [] for variant in variants}
    models: dict[str, Seps] = {}
    stages = Stages(ctx, params.seeds * (params.teach_steps + len(variants) * params.steps))
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        tick = stages.begin(params.teach_steps, f"patch labels, seed {seed}")
        taught = teach(params.dim, params.teach_steps, seed, params.batch, tick)
        held_out = toy.draw(params.judged, HELD_OUT + seed).to(ctx.device)
        for name, seeds in recalls.items():
            with seeded(seed):
                models[name] = _model(name, base)
            asks: Asked = "dense" if name == "dense_alone" else "sparse"
            matcher = Matcher(*copy.deepcopy(taught), models[name], asks).to(ctx.device)
            plan, kept = Plan.of(params, seed), kept_in(params.folder, f"{name}-{seed}")
            on_step = stages.begin(params.steps, f"{name}, seed {seed}")
            train(matcher, plan, drawn(plan, ctx.device), on_step=on_step, checkpoint=kept)
            with seeded(seed):  # random patches are chosen in evaluation, too
                seeds.append(matcher.judge(held_out))
            if name == drawn_of and seed == ctx.seed:
                ctx.artefact("patches.svg", picture(matcher, held_out))
    sums = {(name, "held out"): [recall.total for recall in recalls[name]] for name in recalls}
    charts.seeds("rsum", sums, variants=variants)
    return recalls, models


@torch.no_grad()
def picture(matcher: Matcher, batch: Batch) -> str:
    """Three panels for the first pair of a batch: the image, who stays, who is merged where."""
    texts = [text[:1] for text in (batch.sparse, batch.dense) if text is not None]
    output = matcher.eval()(Batch(batch.images[:1], *texts))
    stays = (output.masks[0][0, 0] > 0.5).tolist()  # (N,)
    shares = output.shares[0].kept[0, 0]  # (J, N)
    token = shares.argmax(0).tolist()  # (N,): where a patch weighs most
    faded = {i: 'fill="#fff" fill-opacity=".82"' for i, stay in enumerate(stays) if not stay}
    # Neighbours differ in lightness, too, and every patch bears the number of its token.
    merged = {
        i: f'fill="hsl({47 * token[i] % 360} 60% {78 if token[i] % 2 else 64}%)" '
        'fill-opacity=".8" stroke="#fff"'
        for i, stay in enumerate(stays)
        if stay
    }
    shown = [
        Panel("the image"),
        Panel("kept; the others fade", faded),
        Panel(
            f"merged into {len(shares)} tokens",
            faded | merged,
            {i: str(token[i] + 1) for i in merged},
        ),
    ]
    caption = toy.in_words(batch.sparse[0])
    row = f"“{caption}”", batch.images[0], shown
    return panels(caption, [row], grid=toy.GRID, side=6 * toy.SIDE)


TOGETHER = 8  # images whose patches look at once: all of a batch at once leave the caches


@torch.no_grad()
def cross_attention(patches: Tensor, text: Texts, temperature: float = 9.0) -> Tensor:
    r"""Similarities (T, B) by dense attention of words over patches and patches over words.

    SCAN (Lee et al., arXiv:1803.08024) with fused attention, so that nothing of the size of all
    pairs times C is kept: patches (B, 1 + N, C), words (T, W, C).

    Equation: $S = \operatorname{mean}_w \cos(t_w, \sum_i \alpha_{wi} v_i)
    + \operatorname{mean}_i \cos(v_i, \sum_w \alpha'_{iw} t_w)$
    """
    v, t = F.normalize(patches, dim=-1), F.normalize(text.words, dim=-1)  # (B, n, C), (T, W, C)

    def seen(queries: Tensor, values: Tensor) -> Tensor:
        """Cosines (q,) of queries (q, C) of length 1 with what each sees of the values (n, C)."""
        read = F.scaled_dot_product_attention(
            queries[None, None], values[None, None], values[None, None], scale=temperature
        )[0, 0]
        return torch.div(torch.linalg.vecdot(read, queries), torch.linalg.vector_norm(read, dim=-1))

    by_words = torch.empty(len(t), len(v), device=v.device)
    by_patches = torch.empty_like(by_words)
    for b, image in enumerate(v):
        cosines = seen(t.flatten(0, 1), image).view(t.shape[:2])  # (T, W)
        by_words[:, b] = cosines.masked_fill(~text.real, 0.0).sum(1) / text.real.sum(1)
    for first in range(0, len(v), TOGETHER):
        images = v[first : first + TOGETHER]
        for i, real in enumerate(text.real):
            cosines = seen(images.flatten(0, 1), t[i, real]).view(images.shape[:2])
            by_patches[i, first : first + TOGETHER] = cosines.mean(1)
    return by_words + by_patches


DENSE_WORDS = 100
Size = tuple[int, int, float]  # images, words of a caption, share of the patches kept


def cost_bytes(params: CostParams, device: str) -> int:
    """An estimate of the peak: inputs, and what dense attention keeps."""
    B, W = max(params.batches), max(params.words)
    inputs = B * (params.patches + 1 + 3 * (W + DENSE_WORDS)) * params.dim
    seen = 3 * B * (params.patches + 1 + W) * params.dim
    cosines = 3 * B * B * (params.patches + 1) * W  # of every patch with every word
    return 4 * (inputs + seen + cosines)


def cost(ctx: Context, params: CostParams) -> None:
    """Time and peak memory over batch, words and patches kept."""
    ctx.check_all("gate", checks.gate(ctx.device))
    time_all(ctx, _comparisons(ctx, params), params, baseline="cross")
    most = max(params.batches)
    ctx.log(f"captions and images at ViT-224 sizes up to {most} x {most}, dense text {DENSE_WORDS}")


def _comparisons(ctx: Context, params: CostParams) -> Iterator[Comparison]:
    """Each size once, for every series that it is a point of."""
    charts = Charts(ctx, __file__)
    words, least = min(params.words), min(params.batches)
    axes = {
        "batch": [(batch, words, 0.5) for batch in params.batches],
        "words": [(least, long, 0.5) for long in params.words],
        "keep": [(least, words, keep) for keep in params.keeps],
    }
    times, memories = (
        {name: charts.open(f"{what}_{name}", words=words, least=least) for name in axes}
        for what in ("time", "memory")
    )
    points: dict[Size, list[tuple[str, float]]] = {}
    for i, (name, sizes) in enumerate(axes.items()):
        for size in sizes:
            points.setdefault(size, []).append((name, float(size[i])))
    for size, at in points.items():
        (first, x), *others = [(times[name], x) for name, x in at]
        peaks = [(memories[name], x) for name, x in at]
        yield Comparison(first, x, partial(_measured, ctx, params, peaks, size), also=others)


def _measured(
    ctx: Context, params: CostParams, peaks: Sequence[tuple[OpenSeries, float]], size: Size
) -> dict[str, Callable[[], Tensor]]:
    """The similarity of all pairs by each variant, on the same random patches and words.

    It is checked against the definition at this size. Peak memory is counted in the first process
    alone, since it is the same in every one.
    """
    batch, long, keep = size

    def text(length: int, seed: int) -> Texts:
        real = torch.ones(batch, length, dtype=torch.bool, device=ctx.device)
        words = randn(batch, length, params.dim, seed=ctx.seed + seed, device=ctx.device)
        return Texts(words, real)

    patches = randn(batch, 1 + params.patches, params.dim, seed=ctx.seed, device=ctx.device)
    sparse, dense = text(long, 1), text(DENSE_WORDS, 2)
    base = SepsConfig(dim=params.dim, patches=params.patches, keep=keep)
    calls: dict[str, Callable[[], Tensor]] = {"cross": partial(cross_attention, patches, sparse)}
    models: dict[str, Seps] = {}
    for name in ("whole", "laps", "seps_learnt", "seps_sparse", "seps"):
        with seeded(ctx.seed):
            models[name] = candidate(name, base).to(ctx.device).eval()
        second = dense if models[name].config.dense else None
        calls[name] = partial(models[name].all_pairs, patches, sparse, second)
    ctx.check_all("at_shape", at_shape(calls, models, patches, sparse, dense))
    if not ctx.repeated:
        sizes = {n: memory.peak(call, ctx.device) / 2**20 for n, call in calls.items()}
        for series, x in peaks:
            series.add_exact(x, sizes)
    return calls


@torch.no_grad()
def at_shape(
    calls: Mapping[str, Callable[[], Tensor]],
    models: Mapping[str, Seps],
    patches: Tensor,
    sparse: Texts,
    dense: Texts | None,
) -> Iterator[Case]:
    """What is timed against the definition in float64, on eight of its pairs.

    Nothing here is timed with gradients, which `similarity` does not give: see the check `oracle`.
    """
    count = len(patches)
    pairs = [(i * (count - 1) // 7, (5 * i + 3) % count) for i in range(8)]  # (caption, image)
    texts = [Texts(text.words.double(), text.real) for text in (sparse, dense) if text is not None]
    for name, call in calls.items():
        S = call()  # (T, B)
        if name in models:
            exact = copy.deepcopy(models[name]).double()
            wanted = pairwise(exact, pairs, patches.double(), *texts[: 1 + exact.config.dense])
        else:
            given = [(patches[b : b + 1].double(), texts[0][t : t + 1]) for t, b in pairs]
            wanted = torch.cat([cross_attention(*pair) for pair in given])
        sampled = torch.stack([S[t, b] for t, b in pairs])
        label = f"{name}, {count} x {count}, {sparse.words.shape[1]} words"
        yield Case(relative(sampled, wanted.flatten()), 1e-4, label=label)

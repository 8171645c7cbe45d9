"""Retrieval of images and captions, and the cost of the similarity."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..context import Context, OpenSeries
from ..kit.checkpoint import kept_in
from ..kit.compare import relative
from ..kit.images import Panel, panels
from ..kit.report import Charts, Stages
from ..kit.seeds import randn, seeded
from ..measure import memory
from ..measure.timing import Comparison, time_all
from ..spec import Case
from . import checks, toy
from .checks import pairwise
from .config import SepsConfig
from .model import CANDIDATES, Seps, candidate
from .pairs import Batch, Texts
from .spec import CostParams, RetrievalParams
from .train import HELD_OUT, Matcher, Plan, Recall, drawn, teach, train

CONTROLS = ("whole", "random", "laps")
Encoders = tuple[nn.Module, nn.Module]  # of images and texts
PLACES = tuple(f"{way}, R@{k}" for way in ("image to text", "text to image") for k in (1, 5, 10))


def retrieval(ctx: Context, params: RetrievalParams) -> None:
    """Train every candidate `seeds` times from the same taught encoders, and search."""
    ctx.check_all("gate", checks.gate(ctx.device))
    charts = Charts(ctx, __file__)
    base = SepsConfig(
        patches=toy.GRID**2, **params.model_dump(include={"dim", "keep", "aggregate"})
    )
    compared = [name for name in CANDIDATES if not params.only or name in {*CONTROLS, *params.only}]
    recalls: dict[str, list[Recall]] = {name: [] for name in compared}
    exact = params.encoder == "exact"
    teach_steps = 0 if exact else params.teach_steps
    stages = Stages(ctx, params.seeds * (teach_steps + len(recalls) * params.steps))
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        tick = stages.begin(teach_steps, f"patch labels, seed {seed}")
        images, texts = teach(params.dim, teach_steps, seed, params.batch, tick)
        with seeded(seed):
            encoders: Encoders = (toy.ExactEncoder(params.dim) if exact else images, texts)
        held_out = toy.draw(params.judged, HELD_OUT + seed).to(ctx.device)
        held_out = toy.labelled(held_out) if exact else held_out
        for name, seeds in recalls.items():
            with seeded(seed):
                slimmer = candidate(name, base)
            matcher = Matcher(*copy.deepcopy(encoders), slimmer).to(ctx.device)
            plan, checkpoint = Plan.of(params, seed), kept_in(params.folder, f"{name}-{seed}")
            on_step = stages.begin(params.steps, f"{name}, seed {seed}")
            draw = drawn(plan, ctx.device, exact=exact)
            train(matcher, plan, draw, on_step=on_step, checkpoint=checkpoint)
            with seeded(seed):  # random patches are chosen in evaluation, too
                seeds.append(matcher.judge(held_out))
            if name == "seps_sparse" and seed == ctx.seed and not exact:
                ctx.artefact("patches.svg", picture(matcher, held_out))
    sums = {(name, "held out"): [recall.total for recall in recalls[name]] for name in recalls}
    charts.seeds("rsum", sums)
    charts.seeds("over_laps", sums)
    table = {
        (name, measure): [(recall.to_text + recall.to_image)[i] for recall in seeds]
        for name, seeds in recalls.items()
        for i, measure in enumerate(PLACES)
    }
    charts.seeds("recall", table)


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
    caption = toy.caption_text(batch.sparse[0])
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
    for size, entries in points.items():
        (first, x), *others = [(times[name], x) for name, x in entries]
        peaks = [(memories[name], x) for name, x in entries]
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
    """Compare what is timed with the definition in float64, on eight of its pairs.

    Nothing here is timed with gradients, which `similarity` does not give: see the check `oracle`.
    """
    count = len(patches)
    pairs = [(i * (count - 1) // 7, (5 * i + 3) % count) for i in range(8)]  # (caption, image)
    texts = [Texts(text.words.double(), text.real) for text in (sparse, dense) if text is not None]
    for name, call in calls.items():
        S = call()  # (T, B)
        if name in models:
            exact = copy.deepcopy(models[name]).double()
            expected = pairwise(exact, pairs, patches.double(), *texts[: 1 + exact.config.dense])
        else:
            inputs = [(patches[b : b + 1].double(), texts[0][t : t + 1]) for t, b in pairs]
            expected = torch.cat([cross_attention(*pair) for pair in inputs])
        sampled = torch.stack([S[t, b] for t, b in pairs])
        label = f"{name}, {count} x {count}, {sparse.words.shape[1]} words"
        yield Case(relative(sampled, expected.flatten()), 1e-4, label=label)

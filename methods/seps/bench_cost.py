"""What the similarity of all pairs costs: `cost`."""

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from methods.context import Context, OpenSeries
from methods.kit.compare import relative
from methods.kit.report import Charts
from methods.kit.seeds import randn, seeded
from methods.measure import memory
from methods.measure.timing import Comparison, time_all
from methods.seps import checks
from methods.seps.baselines import candidate, cross_attention
from methods.seps.config import SepsConfig
from methods.seps.model import Seps, Texts
from methods.seps.reference import pair_similarity
from methods.seps.spec import CostParams
from methods.spec import Case

DENSE_WORDS = 100


def cost_bytes(params: CostParams, device: str) -> int:
    """An estimate of the peak: inputs, and what dense attention keeps."""
    del device
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
    charts = Charts.of(ctx, __file__)
    words, least = min(params.words), min(params.batches)
    sizes: dict[str, list[tuple[float, tuple[int, int, float]]]] = {
        "batch": [(float(b), (b, words, 0.5)) for b in params.batches],
        "words": [(float(w), (least, w, 0.5)) for w in params.words],
        "keep": [(k, (least, words, k)) for k in params.keeps],
    }
    for name, steps in sizes.items():
        times, room = (
            charts.open(f"{what}_{name}", words=words, least=least) for what in ("time", "memory")
        )
        for x, size in steps:
            yield Comparison(times, x, partial(_measured, ctx, params, room, x, size))


def _measured(
    ctx: Context, params: CostParams, room: OpenSeries, x: float, size: tuple[int, int, float]
) -> dict[str, Callable[[], Tensor]]:
    """The similarity of all pairs by each variant, on the same random patches and words.

    It is held against the definition at this size, and its peaks of memory are told.
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
        own = dense if models[name].config.dense else None
        calls[name] = partial(models[name].all_pairs, patches, sparse, own)
    ctx.check_all("at_shape", at_shape(calls, models, patches, sparse, dense))
    room.add_exact(x, {n: memory.peak(call, ctx.device) / 2**20 for n, call in calls.items()})
    return calls


@torch.no_grad()
def at_shape(
    calls: Mapping[str, Callable[[], Tensor]],
    models: Mapping[str, Seps],
    patches: Tensor,
    sparse: Texts,
    dense: Texts,
) -> Iterator[Case]:
    """What is timed against the definition in float64, on eight of its pairs.

    Nothing here is timed with gradients, which `similarity` does not give: see the check `oracle`.
    """
    count = len(patches)
    pairs = [(i * (count - 1) // 7, (5 * i + 3) % count) for i in range(8)]  # (caption, image)
    for name, call in calls.items():
        found = call()  # (T, B)
        exact = copy.deepcopy(models[name]).double() if name in models else None
        wanted = []
        for t, b in pairs:
            texts = [words.words[t].double() for words in (sparse, dense)]
            if exact is None:
                alone = Texts(texts[0][None], sparse.real[t : t + 1])
                wanted.append(cross_attention(patches[b : b + 1].double(), alone)[0, 0])
            else:
                texts = texts[: 1 + exact.config.dense]
                wanted.append(pair_similarity(exact, patches[b].double(), texts))
        sampled = torch.stack([found[t, b] for t, b in pairs])
        label = f"{name}, {count} x {count}, {sparse.words.shape[1]} words"
        yield Case(relative(sampled, torch.stack(wanted)), 1e-4, label=label)

"""What the similarity of all pairs costs: `cost`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from methods.context import Context, OpenSeries
from methods.kit.compare import relative
from methods.kit.seeds import randn, seeded
from methods.measure import memory
from methods.measure.timing import Comparison, time_all
from methods.protocol import Axis, Variant
from methods.seps import checks
from methods.seps.baselines import candidate, cross_attention
from methods.seps.config import SepsConfig
from methods.seps.model import Seps, Texts
from methods.seps.reference import pair_similarity
from methods.seps.spec import CostParams
from methods.spec import Case

VARIANTS = (
    Variant(name="cross", label="dense cross attention"),
    Variant(name="whole", label="maxima over every patch"),
    Variant(name="laps", label="LAPS-like"),
    Variant(name="seps_learnt", label="ours, learnt score alone", ours=True),
    Variant(name="seps_sparse", label="ours, sparse text only", ours=True),
    Variant(name="seps", label="ours, two texts", ours=True),
)
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
    words, least = min(params.words), min(params.batches)
    over_batch = _pair(ctx, "batch", "images, and as many captions", f"{words} words", "log")
    over_words = _pair(ctx, "words", "words of a caption", f"{least} x {least}", "log")
    over_keep = _pair(ctx, "keep", "share of patches kept", f"{words} words", "linear")
    steps = [(over_batch, float(b), (b, words, 0.5)) for b in params.batches]
    steps += [(over_words, float(w), (least, w, 0.5)) for w in params.words]
    steps += [(over_keep, k, (least, words, k)) for k in params.keeps]
    for (times, room), x, size in steps:

        def build(
            x: float = x, room: OpenSeries = room, size: tuple[int, int, float] = size
        ) -> dict[str, Callable[[], Tensor]]:
            calls = _calls(ctx, params, *size)
            peaks = {name: memory.peak(call, ctx.device) / 2**20 for name, call in calls.items()}
            room.add_exact(x, peaks)
            return calls

        yield Comparison(times, x, build)


def _pair(
    ctx: Context, name: str, label: str, title: str, scale: str
) -> tuple[OpenSeries, OpenSeries]:
    axis = Axis(label=label, scale="log" if scale == "log" else "linear")
    caption = (
        "Every caption with every image, in float32. Dense cross attention: words over patches and "
        "patches over words, fused. Slimming by texts chooses patches anew for each pair, by the "
        "learnt score alone once an image."
    )
    made = [
        ctx.series(
            f"{what}_{name}",
            f"{shown} of the similarity, {title}",
            x=axis,
            y=Axis(label=shown.lower(), unit=unit, scale="log"),
            direction="lower",
            variants=VARIANTS,
            baseline="cross",
            caption=caption,
        )
        for what, shown, unit in (("time", "Time", "ms"), ("memory", "Peak memory", "MiB"))
    ]
    return made[0], made[1]


def _calls(
    ctx: Context, params: CostParams, batch: int, words: int, keep: float
) -> dict[str, Callable[[], Tensor]]:
    """The similarity of all pairs by each variant, on the same random patches and words."""

    def text(length: int, seed: int) -> Texts:
        real = torch.ones(batch, length, dtype=torch.bool, device=ctx.device)
        words = randn(batch, length, params.dim, seed=ctx.seed + seed, device=ctx.device)
        return Texts(words, real)

    patches = randn(batch, 1 + params.patches, params.dim, seed=ctx.seed, device=ctx.device)
    sparse, dense = text(words, 1), text(DENSE_WORDS, 2)
    base = SepsConfig(dim=params.dim, patches=params.patches, keep=keep)
    calls: dict[str, Callable[[], Tensor]] = {"cross": partial(cross_attention, patches, sparse)}
    models: dict[str, Seps] = {}
    for name in ("whole", "laps", "seps_learnt", "seps_sparse", "seps"):
        with seeded(ctx.seed):
            models[name] = candidate(name, base).to(ctx.device).eval()
        own = dense if models[name].config.dense else None
        calls[name] = partial(models[name].all_pairs, patches, sparse, own)
    ctx.check_all("at_shape", at_shape(calls, models, patches, sparse, dense))
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

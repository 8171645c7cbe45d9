"""What the similarity of all pairs costs: `cost`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from methods.context import Context, OpenSeries
from methods.kit.seeds import seeded
from methods.measure import memory
from methods.measure.statistics import exact_point
from methods.measure.timing import compare
from methods.protocol import Axis, Variant
from methods.seps import checks
from methods.seps.baselines import candidate, cross_attention
from methods.seps.config import SepsConfig
from methods.seps.model import Seps, Texts
from methods.seps.spec import CostParams

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
    most, standard = max(params.batches), 0.5
    words = min(params.words)
    time_batch, room_batch = _pair(
        ctx, "batch", "images, and as many captions", f"{words} words", "log"
    )
    time_words, room_words = _pair(
        ctx, "words", "words of a caption", f"{min(params.batches)} x {min(params.batches)}", "log"
    )
    time_keep, room_keep = _pair(ctx, "keep", "share of patches kept", f"{words} words", "linear")
    steps: list[tuple[OpenSeries, OpenSeries, float, int, int, float]] = []
    steps += [(time_batch, room_batch, b, b, words, standard) for b in params.batches]
    least = min(params.batches)
    steps += [(time_words, room_words, w, least, w, standard) for w in params.words]
    steps += [(time_keep, room_keep, k, least, words, k) for k in params.keeps]
    work = [b * b * w for _, _, _, b, w, _ in steps]
    for index, (times, room, x, batch, length, keep) in enumerate(steps):
        calls = _calls(ctx, params, batch, length, keep)

        def tick(done: int, of: int, index: int = index, x: float = x) -> None:
            ctx.progress(sum(work[:index]) + work[index] * done / of, sum(work), f"x = {x:g}")

        timings = compare(
            calls,
            device=ctx.device,
            seed=ctx.seed,
            blocks=params.blocks,
            samples=1,
            max_warm_up_s=params.max_warm_up_s,
            cpu_clock="process" if params.threads == 1 else "wall",
            on_block=tick,
        )
        times.add(*timings.points(x, baseline="cross", unit="ms"))
        peaks = {name: memory.peak(call, ctx.device) / 2**20 for name, call in calls.items()}
        for name, peak in peaks.items():
            against = None if name == "cross" else peaks["cross"]
            room.add(exact_point(name, x, peak, direction="lower", baseline=against))
    ctx.log(f"captions and images at ViT-224 sizes up to {most} x {most}, dense text {DENSE_WORDS}")


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
) -> dict[str, Callable[[], object]]:
    """The similarity of all pairs by each variant, on the same random patches and words."""
    generator = torch.Generator().manual_seed(ctx.seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(ctx.device)

    def text(length: int) -> Texts:
        real = torch.ones(batch, length, dtype=torch.bool, device=ctx.device)
        return Texts(normal(batch, length, params.dim), real)

    patches = normal(batch, 1 + params.patches, params.dim)  # (B, 1 + N, C)
    sparse, dense = text(words), text(DENSE_WORDS)
    base = SepsConfig(dim=params.dim, patches=params.patches, keep=keep)
    calls: dict[str, Callable[[], object]] = {"cross": partial(cross_attention, patches, sparse)}
    for name in ("whole", "laps", "seps_learnt", "seps_sparse", "seps"):
        with seeded(ctx.seed):
            model: Seps = candidate(name, base).to(ctx.device).eval()
        own = dense if model.config.dense else None
        calls[name] = partial(model.all_pairs, patches, sparse, own)
    return calls

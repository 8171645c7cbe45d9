"""Merging inside of a vision transformer, on the handwritten digits that scikit-learn carries."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import CLIPVisionConfig, CLIPVisionModel

from ..context import Context
from ..kit import training
from ..kit.report import Charts, Stages
from ..kit.seeds import seeded
from ..measure import flops
from ..measure.clock import elapsed
from . import checks
from .merging import Reduce, alike, by_chance, dropped, merged_states, pooled, schedule
from .spec import VitParams

SIDE, CLASSES = 8, 10
PATCHES = SIDE * SIDE  # each of one pixel
WIDTH, BATCH, RATE = 32, 64, 3e-3
TIMED, TURNS = 128, 5  # images at most, and turns in which each way is timed once

OnStep = Callable[..., None]
At = tuple[str, float]  # a way, and the mean tokens a layer
Table = dict[At, list[float]]
Plan = tuple[list[int], Reduce, bool]  # tokens fewer by layer, how, and whether sizes count
Plans = dict[At, Plan]
PLAIN = ("plain", float(PATCHES))


class Classifier(nn.Module):
    """A CLIP's tower of six layers that reads digits of 8 x 8 pixels, and a map to ten classes."""

    def __init__(self) -> None:
        super().__init__()
        config = CLIPVisionConfig(
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=6,
            num_attention_heads=2,
            image_size=SIDE,
            patch_size=1,
            num_channels=1,
            initializer_range=0.15,
        )
        self.tower: Any = CLIPVisionModel(config)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, pixels: Tensor) -> Tensor:
        r"""Logits (B, CLASSES) of the whole image. Equation: $W\, \mathrm{norm}(h_{cls}) + b$"""
        logits: Tensor = self.head(self.tower(pixels).pooler_output)
        return logits

    @torch.no_grad()
    def merged(self, pixels: Tensor, fewer: list[int], reduce: Reduce, sized: bool) -> Tensor:
        r"""Logits (B, CLASSES) with tokens merged. Equation: $W\, \mathrm{norm}(h_{cls}) + b$"""
        states, _ = merged_states(self.tower, pixels, fewer, reduce, sized=sized)
        logits: Tensor = self.head(self.tower.post_layernorm(states[:, 0]))
        return logits


def digits(seed: int, judged: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (n, 1, 8, 8) in [-1, 1] and their classes (n,): to learn from, then held out."""
    read = load_digits()
    order = np.random.default_rng(seed).permutation(len(read.target))
    images = torch.from_numpy(read.images[order]).float()[:, None] / 8 - 1
    labels = torch.from_numpy(read.target[order])
    return images[judged:], labels[judged:], images[:judged], labels[:judged]


def trained(images: Tensor, labels: Tensor, seed: int, steps: int, tick: OnStep) -> Classifier:
    """A classifier of these digits."""
    with seeded(seed):
        model = Classifier()

    def loss(_: int) -> Tensor:
        rows = torch.randint(len(images), (BATCH,))
        return F.cross_entropy(model(images[rows]), labels[rows])

    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    plan = training.Plan(steps, RATE, seed=seed)
    training.fit(loss, optimiser, plan, training.History(), module=model, on_step=tick)
    return model


def plans(layers: int, budgets: tuple[int, ...], generator: torch.Generator) -> Plans:
    """Every way at every mean number of tokens; all of them leave in the same layers but pooling,
    which is done in the first."""
    ways: dict[str, tuple[Reduce, bool]] = {
        "merged": (alike, True),
        "unsized": (alike, False),
        "by_chance": (partial(by_chance, generator), True),
        "dropped": (partial(dropped, generator), True),
    }
    made: Plans = {}
    for side in budgets:
        kept = float(side * side)
        for name, way in ways.items():
            made[name, kept] = (schedule(PATCHES, layers, kept), *way)
        made["pooled", kept] = ([PATCHES - side * side], pooled, True)
    return made


def vit(ctx: Context, params: VitParams) -> None:
    """Train a classifier a seed, then judge and time it with fewer and fewer tokens."""
    torch.set_num_threads(1)
    ctx.check_all("merging", checks.merging(ctx.device))
    stages = Stages(ctx, params.seeds * params.steps)
    right: Table = defaultdict(list)
    faster: Table = defaultdict(list)
    whole = []
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        tick = stages.begin(params.steps, f"seed {seed}")
        *learnt, images, labels = digits(seed, params.judged)
        model = trained(learnt[0], learnt[1], seed, params.steps, tick).to(ctx.device).eval()
        images, labels = images.to(ctx.device), labels.to(ctx.device)
        generator = torch.Generator().manual_seed(seed)
        every = plans(len(model.tower.encoder.layers), params.sides, generator)
        plain: Plan = ([], alike, False)
        whole.append(_per_cent(model.merged(images, *plain), labels))
        ctx.log(f"seed {seed}: {whole[-1]:.1f} % of {params.judged} digits right with all tokens")
        for at, plan in every.items():
            draws = params.draws if at[0] in ("by_chance", "dropped") else 1
            shares = [_per_cent(model.merged(images, *plan), labels) for _ in range(draws)]
            right[at].append(sum(shares) / draws)
        timed = {PLAIN: plain, **every}
        calls = {at: partial(model.merged, images[:TIMED], *plan) for at, plan in timed.items()}
        seconds = _in_turns(calls, ctx.device)
        one = {at: partial(model.merged, images[:1], *plan) for at, plan in timed.items()}
        for at in every:
            faster[at].append(seconds[PLAIN] / seconds[at])
    charts = Charts(ctx, __file__)
    limits = {"all 64 tokens": sum(whole) / len(whole)}
    charts.seeds("vit_accuracy", right, limits=limits)
    with sdpa_kernel(SDPBackend.MATH):  # the counter does not see the fused CPU kernel
        cost = {at: flops.count(call) for at, call in one.items()}
    by_cost = {(at[0], 100 * cost[at] / cost[PLAIN]): seeds for at, seeds in right.items()}
    charts.seeds("vit_operations", by_cost)
    charts.seeds("vit_time", faster)


def _per_cent(logits: Tensor, labels: Tensor) -> float:
    return 100 * float((logits.argmax(-1) == labels).float().mean())


def _in_turns(calls: Mapping[At, Callable[[], object]], device: str) -> dict[At, float]:
    """The median seconds of each call, all of them in turns."""
    seconds = [{at: elapsed(call, device) for at, call in calls.items()} for _ in range(TURNS)]
    return {at: median(turn[at] for turn in seconds) for at in calls}

"""How good: `language_model` and `recall`, small models trained on the spot with fixed seeds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..context import Context
from ..kit.corpus import stdlib
from ..kit.report import Charts, Stages
from ..kit.seeds import generator
from ..kit.training import History, Plan, fit
from ..protocol import Variant
from . import checks
from .config import SparseAttentionConfig
from .gpt2 import GPT2, GPT2Config
from .spec import LanguageModelParams, RecallParams

Shares = dict[tuple[str, float | str], list[float]]  # by variant and x, one of each seed

HEADS, RECALL_WIDTH = 6, 48
STRIDE = 10
ASKED = 1024  # samples that every model answers


def _sparse_configs(window: int) -> dict[str, SparseAttentionConfig]:
    """What each variant but the dense one attends with."""
    ours = SparseAttentionConfig(4, 2, window, 1 / STRIDE, adaptive_window=False)
    return {
        "local_only": replace(ours, local_heads=HEADS, global_heads=0),
        "ours": ours,
        "pool": replace(ours, anchor="pool"),
    }


@dataclass(frozen=True)
class _Task:
    """What every variant is trained on, and by how large a model."""

    params: LanguageModelParams | RecallParams
    vocab: int
    n_layer: int
    n_embd: int
    rate: float
    loss_of: Callable[[GPT2, torch.Generator], Tensor]

    def train(self, net: GPT2, draw: torch.Generator, on_step: Callable[..., None]) -> None:
        """AdamW, a tenth of warm-up, then a cosine to a tenth."""
        steps = self.params.steps
        plan = Plan(steps, self.rate, warm_up=max(1, steps // 10))
        optimiser = torch.optim.AdamW(net.parameters(), betas=(0.9, 0.98), weight_decay=0.01)

        def loss(_: int) -> Tensor:
            return self.loss_of(net, draw)

        fit(loss, optimiser, plan, History(), module=net, on_step=on_step)


def _trained(
    ctx: Context, task: _Task, variants: Sequence[Variant]
) -> Iterator[tuple[str, int, GPT2]]:
    """Every variant from every seed, each trained on the same draws, once attention is right."""
    params = task.params
    configs = _sparse_configs(params.window)
    shape = params.batch, HEADS, params.context, task.n_embd // HEADS
    ctx.check_all("at_shape", checks.gate(configs, *checks.draw(*shape, device=ctx.device)))
    plain = GPT2Config(task.vocab, params.context, task.n_layer, HEADS, task.n_embd)
    stages = Stages(ctx, params.seeds * len(variants) * params.steps)
    for seed in range(params.seeds):
        for variant in variants:
            torch.manual_seed(ctx.seed + seed)
            net = GPT2(plain.attending(configs.get(variant.name))).to(ctx.device)
            on_step = stages.begin(params.steps, f"{variant.label}, seed {seed}")
            task.train(net, generator(1000 + ctx.seed + seed), on_step)
            yield variant.name, seed, net


# --- Byte language model -------------------------------------------------------------------------


def language_model(ctx: Context, params: LanguageModelParams) -> None:
    """Bits per byte held out, after the same training on the same bytes, for each attention."""
    corpus = stdlib()
    ctx.log(f"standard library sources {corpus.digest}: {len(corpus.train)} bytes to train on")
    held_out = corpus.judged(64, params.context + 1)

    def loss_of(net: GPT2, draw: torch.Generator) -> Tensor:
        at = int(torch.randint(1 << 30, (), generator=draw))
        return _bits(net, corpus.batch(at, params.batch, params.context + 1), ctx)

    task = _Task(params, 256, params.n_layer, params.n_embd, 3e-3, loss_of)
    charts = Charts(ctx, __file__)
    table: Shares = defaultdict(list)
    shown = charts.variants("quality", ("dense", "local_only", "ours"))
    for name, _, net in _trained(ctx, task, shown):
        with torch.no_grad():
            found = [float(_bits(net, batch, ctx)) for batch in torch.split(held_out, 8)]
        table[name, f"{params.context} bytes"].append(sum(found) / len(found))
    charts.seeds("bits_per_byte", table, params=params)


def _bits(net: GPT2, batch: Tensor, ctx: Context) -> Tensor:
    batch = batch.to(ctx.device)
    logits = net(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()) / math.log(2)


# --- Recall of needles ---------------------------------------------------------------------------

KEYS, VALUES, FILLERS, NEEDLES = 6, 6, 16, 4
VOCAB = KEYS * VALUES + KEYS + FILLERS  # needle (key, value), question (key), filler


@dataclass(frozen=True)
class Needles:
    """A batch of the task: fillers with four needles, then a question for each, in random order.

    A needle is one token that holds a key and its value; a question is one token that holds a key;
    the answer, at the question, is the value's number.
    """

    tokens: Tensor  # (batch, context)
    answers: Tensor  # (batch, 4), for the last 4 positions
    places: Tensor  # (batch, 4), where the needle asked for stands

    @classmethod
    def draw(cls, batch: int, context: int, draw: torch.Generator, *, stride: int) -> Needles:
        """Half of all needles stand on anchors; the others never do."""
        body = context - NEEDLES
        tokens = torch.randint(0, FILLERS, (batch, context), generator=draw) + KEYS * VALUES + KEYS
        keys = torch.rand(batch, KEYS, generator=draw).argsort(1)[:, :NEEDLES]
        values = torch.randint(0, VALUES, (batch, NEEDLES), generator=draw)
        anchors = torch.arange(0, body, stride)
        others = torch.tensor([p for p in range(body) if p % stride])
        half = NEEDLES // 2
        on = anchors[torch.rand(batch, len(anchors), generator=draw).argsort(1)[:, :half]]
        off = others[torch.rand(batch, len(others), generator=draw).argsort(1)[:, half - NEEDLES :]]
        places = torch.cat([on, off], dim=1)  # (batch, 4)
        tokens.scatter_(1, places, keys * VALUES + values)
        order = torch.rand(batch, NEEDLES, generator=draw).argsort(1)
        tokens[:, body:] = keys.gather(1, order) + KEYS * VALUES
        return cls(tokens, values.gather(1, order), places.gather(1, order))


def recall(ctx: Context, params: RecallParams) -> None:
    """Share of needles answered right, on and off the anchors, and by distance."""
    charts = Charts(ctx, __file__)
    on_off: Shares = defaultdict(list)
    by_distance: Shares = defaultdict(list)

    def loss_of(net: GPT2, draw: torch.Generator) -> Tensor:
        needles = Needles.draw(params.batch, params.context, draw, stride=STRIDE)
        logits = net(needles.tokens.to(ctx.device))[:, -NEEDLES:, :VALUES]
        return F.cross_entropy(logits.flatten(0, 1), needles.answers.flatten().to(ctx.device))

    task = _Task(params, VOCAB, 2, RECALL_WIDTH, 4e-3, loss_of)
    for name, seed, net in _trained(ctx, task, charts.variants("quality")):
        right, needles = _answer(net, params, ctx)
        if name == "dense":
            ctx.check("dense_recall", float(right.mean()), params.gate, ">=", f"seed {seed}")
        on = needles.places % STRIDE == 0
        for place, chosen in (("on an anchor", on), ("off the anchors", ~on)):
            on_off[name, place].append(float(right[chosen].mean()))
        for distance, chosen in _distances(needles, params.context):
            by_distance[name, distance].append(float(right[chosen & ~on].mean()))
    charts.seeds("recall", on_off, params=params, stride=STRIDE, guess=1 / VALUES)
    charts.seeds("recall_by_distance", by_distance)


@torch.no_grad()
def _answer(net: GPT2, params: RecallParams, ctx: Context) -> tuple[Tensor, Needles]:
    """(samples, 4) 1.0 where right, over the same samples for every model."""
    task = Needles.draw(ASKED, params.context, generator(7), stride=STRIDE)
    logits = [
        net(part.to(ctx.device))[:, -NEEDLES:, :VALUES].cpu() for part in task.tokens.chunk(16)
    ]
    return (torch.cat(logits).argmax(-1) == task.answers).float(), task


def _distances(task: Needles, context: int) -> Iterator[tuple[float, Tensor]]:
    """Eighths of the context: their middle, and which needles lie that far from their question."""
    asked = torch.arange(context - NEEDLES, context)
    eighths = (asked - task.places) * 8 // context  # (samples, 4)
    for eighth in range(8):
        yield (eighth + 0.5) * context / 8, eighths == eighth

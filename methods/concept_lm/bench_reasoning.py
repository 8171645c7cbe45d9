"""Latent reasoning measured: ways of taking steps before an answer, on a search of known depth."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..context import Context
from ..errors import InputError
from ..kit.report import Charts, Stages
from ..kit.seeds import seeded
from ..kit.training import History, Plan, fit
from . import checks
from .base import load_base, tiny_config
from .reasoning import ONE_BY_ONE, WAYS, Reasoner, Way, operations
from .spec import ReasoningParams
from .synthetic import Hops

HELD_OUT = 7_000_003  # a seed apart from those of training


def asked(params: ReasoningParams) -> Hops:
    """The benchmark's task."""
    return Hops(depth=params.hops, chains=params.chains, dead=params.dead)


def make(way: Way, params: ReasoningParams, seed: int, device: str) -> Reasoner:
    """An untrained model of a way: of one seed all have the same weights.

    Raises:
        InputError: for a base with fewer tokens than a graph needs.
    """
    task, heads = asked(params), max(4, params.d // 64)
    source = params.model or tiny_config(
        vocab=task.words, d=params.d, layers=params.layers, heads=heads, kv_heads=heads // 2,
        d_ff=4 * params.d,
    )  # fmt: skip
    base = load_base(source, dtype=torch.float32, seed=seed)
    if base.config.vocab_size < task.words:
        raise InputError(f"the base has {base.config.vocab_size} tokens, a graph {task.words}")
    return Reasoner(base, way, params.hops - 1, task.pause).to(device)


def train(
    model: Reasoner, params: ReasoningParams, seed: int, on_step: Callable[..., None]
) -> None:
    """Train on fresh questions: those of a step depend on seed and step alone."""
    task, device = asked(params), next(model.parameters()).device

    def loss(step: int) -> Tensor:
        question, walk = task.sample(params.rows)
        return model.loss(question.to(device), walk.to(device), model.stage(step / params.steps))

    optimiser = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.0)
    plan = Plan(params.steps, params.lr, seed=seed)
    fit(loss, optimiser, plan, History(), module=model, on_step=on_step)


def right(model: Reasoner, question: Tensor, walk: Tensor, **how: Any) -> float:
    """Percent of questions that are answered by the goal of their walk; `how` as in `answer`."""
    return 100 * float((model.answer(question, **how) == walk[:, -1]).float().mean())


def another(h: Tensor) -> Tensor:
    """The states of a batch, each given to the question behind it."""
    return h.roll(1, 0)


CONTROLS: dict[str, dict[str, Any]] = {
    "as trained": {},
    "another question's": {"change": another},
    "none": {"steps": 0},
}


def reasoning(ctx: Context, params: ReasoningParams) -> None:
    """Train every way `seeds` times on the same questions; right answers by depth and by cost."""
    torch.set_num_threads(1)
    ctx.check_all("latent_steps", checks.latent_steps(ctx.device))
    ctx.check_all("equal_cost", checks.equal_cost(ctx.device))
    task, charts = asked(params), Charts(ctx, __file__)
    with seeded(HELD_OUT):
        depths = range(1, params.hops + 1)
        held = {hops: task.sample(params.judged, hops) for hops in depths}
    held = {k: (q.to(ctx.device), walk.to(ctx.device)) for k, (q, walk) in held.items()}
    by_depth, by_cost, by_step = (defaultdict[tuple[str, Any], list[float]](list) for _ in range(3))
    stages = Stages(ctx, params.seeds * len(WAYS) * params.steps)
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        for way in WAYS:
            model = make(way, params, seed, ctx.device)
            train(model, params, seed, stages.begin(params.steps, f"{way}, seed {seed}"))
            for hops, (question, walk) in held.items():
                by_depth[way, float(hops)].append(right(model, question, walk))
            cost = operations(model.base.config, way, question.shape[1], model.steps)
            by_cost[way, cost].append(by_depth[way, float(hops)][-1])
            if way in ONE_BY_ONE:
                for given, how in CONTROLS.items():
                    by_step[way, given].append(right(model, question, walk, **how))
    charts.seeds("depth", by_depth, limits={"chance among goals": 100 / params.chains})
    charts.seeds("cost", by_cost)
    charts.seeds("carried", by_step)

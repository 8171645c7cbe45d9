"""v3 measured on a task whose entropies are known."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from methods.concept_lm import checks_plans
from methods.concept_lm.bench_charts import draw_monitors, draw_seeds
from methods.concept_lm.spec import PlannerParams
from methods.concept_lm.synthetic import PlanTask
from methods.concept_lm.v3.curriculum import NAIVE, NAIVE_CURRICULUM, Curriculum, EMSettings
from methods.concept_lm.v3.em import HardEM
from methods.concept_lm.v3.monitors import Trace, diagnose
from methods.context import Context
from methods.kit.report import Stages, over_seeds
from methods.kit.seeds import generator
from methods.protocol import Axis, Limit, Variant

OURS = Variant(name="ours", label="warm-up, recogniser, annealed beta", ours=True)
NAIVELY = Variant(name="naive", label="naive Hard-EM")


def task_of(params: PlannerParams) -> PlanTask:
    """The benchmark's task."""
    return PlanTask(types=params.types, bits=params.bits)


def make(params: PlannerParams, seed: int, naive: bool = False) -> HardEM:
    """Planner, executor and recogniser for the benchmark's task."""
    task = task_of(params)
    shape = task.shape()
    if naive:
        plan = replace(NAIVE_CURRICULUM, steps=params.naive_steps)
        return HardEM(task, shape, replace(NAIVE, seed=seed), plan)
    plan = Curriculum(
        warm_up=params.warm_up, through=params.through, steps=params.steps, cool=params.cool
    )
    return HardEM(task, shape, EMSettings(seed=seed), plan)


def planner(ctx: Context, params: PlannerParams) -> None:
    """Train `seeds` times, and the naive variant beside it."""
    torch.set_num_threads(1)  # small matrices: threads would only wait for each other
    ctx.check_all("typed_plans", checks_plans.typed_plans(ctx.device))
    runs: dict[str, list[HardEM]] = {"ours": [], "naive": []}
    traces: dict[str, Trace] = {}
    seconds: list[float] = []
    naive_runs = params.seeds if params.naive_steps else 0
    total = params.seeds * (params.warm_up + params.steps) + naive_runs * params.naive_steps
    stages = Stages(ctx, total)
    for seed in range(params.seeds):
        for name in ("ours", "naive") if naive_runs else ("ours",):
            em = make(params, seed, naive=name == "naive")
            hear = stages.begin(em.curriculum.total, f"{name}, seed {seed}")
            begun = time.process_time()
            trace = em.train(hear, watch=params.watch)
            if name == "ours":
                seconds.append(time.process_time() - begun)
            runs[name].append(em)
            traces.setdefault(name, trace)
            for action in diagnose(trace.stats[-1]):
                ctx.log(f"{name}, seed {seed}: {action.symptom}. Try: {action.action}.")
    _report(ctx, runs, task_of(params))
    draw_monitors(ctx, traces, [v for v in (OURS, NAIVELY) if v.name in traces])
    draw_seeds(
        ctx,
        "seconds",
        "Processor time of a training",
        Axis(label="time", unit="s"),
        [OURS],
        found={"ours": {"all seeds": seconds}},
        along="training",
        limits={"five minutes": 300.0},
    )


def _report(ctx: Context, runs: dict[str, list[HardEM]], task: PlanTask) -> None:
    """What the plans carry, and how many codes they use."""
    floors = task.floors
    used = [variant for variant in (OURS, NAIVELY) if runs[variant.name]]
    found = {v.name: [measured(em, ctx.seed) for em in runs[v.name]] for v in used}

    def by(read: Callable[[Measured], dict[str, float]]) -> dict[str, dict[str, list[float]]]:
        """What a reading of each seed's figures gives, by variant and category."""
        told = {name: [read(one) for one in seeds] for name, seeds in found.items()}
        return {
            name: {key: [one[key] for one in seeds] for key in seeds[0]}
            for name, seeds in told.items()
        }

    draw_seeds(
        ctx,
        "nll",
        "What the text costs",
        Axis(label="NLL of y", unit="nats", least=0.0),
        used,
        found=by(lambda one: one.nll),
        along="given",
        limits={"H(y | z), computed": floors.given_z, "H(y), computed": floors.free},
        caption="z* is the best of the candidates for the held-out text itself; the planner's plan "
        "is written from the prompt alone.",
    )
    draw_seeds(
        ctx,
        "gain",
        "What a plan is worth",
        Axis(label="NLL of y without a plan, less that with it", unit="nats"),
        used,
        found=by(
            lambda one: {g: one.nll["nothing"] - n for g, n in one.nll.items() if g != "nothing"}
        ),
        along="given",
        direction="higher",
        limits={"I(u; y), computed": floors.free - floors.given_u},
        caption="The difference within each training, and the interval of its mean over trainings: "
        "where it holds zero, nothing is shown.",
    )
    draw_seeds(
        ctx,
        "codes",
        "Codes in use",
        Axis(
            label="different codes in z*, chosen by S",
            unit="codes",
            least=0.0,
            most=float(task.codes),
        ),
        used,
        found=by(lambda one: one.codes),
        along="type",
        direction="higher",
        limits={"all": float(task.codes)},
    )
    draw_seeds(
        ctx,
        "price",
        "What plan and text cost together",
        Axis(label="-S(z)", unit="nats"),
        used,
        found=by(lambda one: one.price),
        along="plan",
        limits={"H(y | u), computed": floors.given_u},
        caption="S(z) = log p(y|z) + log p(z|u) never exceeds log p(y|u).",
    )


class Measured(NamedTuple):
    """What a training's plans for the held-out texts cost, nats, and how many codes they use."""

    nll: dict[str, float]  # of y, by what is given
    price: dict[str, float]  # of plan and text, by plan
    codes: dict[str, float]  # by type


def measured(em: HardEM, seed: int) -> Measured:
    """Plans chosen for the text itself, written by the planner, and another text's.

    Codes are counted in plans chosen by S: where no plan matters, log p(y|z) alone picks at random,
    and mutations alone would look like many codes.
    """
    best, scored, greedy = em.best_plans(), em.best_plans(1.0), em.planner.sample(em.held_u, 0.0)
    other = best[torch.randperm(len(best), generator=generator(seed))]
    return Measured(
        nll={
            "z*": em.nll(best),
            "the planner's z": em.nll(greedy),
            "another text's z*": em.nll(other),
            "nothing": em.free_nll(),
        },
        price={"z*, chosen by S": em.price(scored), "the planner's z": em.price(greedy)},
        codes={f"type {k + 1}": float(n) for k, n in enumerate(em.codes_used(scored))},
    )


def drop_concepts(z: Tensor, share: float, eos: int, source: torch.Generator) -> Tensor:
    """Plans with a random share of their concepts taken away (EOS in their place)."""
    lost = torch.rand(z.shape, generator=source) < share
    return torch.where(lost, eos, z)


def dropout(ctx: Context, params: PlannerParams) -> None:
    """Reconstruction NLL against the share of concepts dropped at evaluation."""
    torch.set_num_threads(1)
    ctx.check_all("typed_plans", checks_plans.typed_plans(ctx.device))
    ems = []
    stages = Stages(ctx, params.seeds * (params.warm_up + params.steps))
    for seed in range(params.seeds):
        em = make(params, seed)
        em.train(stages.begin(em.curriculum.total, f"seed {seed}"), params.watch)
        ems.append(em)
    floors = task_of(params).floors
    shares = [i / 10 for i in range(11)]
    series = ctx.series(
        "dropout",
        "What the text costs without some of its concepts",
        x=Axis(label="concepts dropped", unit="share"),
        y=Axis(label="NLL of y", unit="nats", least=0.0),
        direction="lower",
        variants=[OURS],
        limits=[
            Limit(
                label="computed: H(y | the codes that are left)",
                points=tuple(
                    (s, floors.given_z + s * (floors.free - floors.given_z)) for s in shares
                ),
            )
        ],
        caption="Types are independent: each lost concept costs its own bits, the floor is a line.",
    )
    plans = [em.best_plans() for em in ems]
    for share in shares:
        found = []
        for em, whole in zip(ems, plans, strict=True):
            z = drop_concepts(whole, share, em.shape.eos, generator(ctx.seed))
            found.append(em.nll(z))
        series.add(over_seeds("ours", share, found))

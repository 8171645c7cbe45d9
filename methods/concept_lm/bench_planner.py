"""v3 measured on a task whose entropies are known."""

import time
from dataclasses import replace

import torch
from torch import Tensor

from methods.concept_lm import checks_plans
from methods.concept_lm.bench_monitors import draw_monitors
from methods.concept_lm.spec import PlannerParams
from methods.concept_lm.synthetic import PlanTask
from methods.concept_lm.v3.curriculum import Curriculum
from methods.concept_lm.v3.em import NAIVE, NAIVE_CURRICULUM, EMSettings, HardEM
from methods.concept_lm.v3.monitors import Trace, diagnose
from methods.concept_lm.v3.planner import PlanShape
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
    shape = PlanShape(params.types, task.codes, 1, task.u_vocab, task.y_vocab)
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
    spent = ctx.series(
        "seconds",
        "Processor time of a training",
        x=Axis(label="training", scale="category"),
        y=Axis(label="time", unit="s"),
        direction="lower",
        variants=[OURS],
        limits=[Limit(label="five minutes", points=(("all seeds", 300.0),))],
    )
    spent.add(over_seeds("ours", "all seeds", seconds))


def _report(ctx: Context, runs: dict[str, list[HardEM]], task: PlanTask) -> None:
    """What the plans carry, and how many codes they use."""
    floors = task.floors
    used = [OURS] + ([NAIVELY] if runs["naive"] else [])
    nll = ctx.series(
        "nll",
        "What the text costs",
        x=Axis(label="given", scale="category"),
        y=Axis(label="NLL of y", unit="nats", least=0.0),
        direction="lower",
        variants=used,
        limits=[
            Limit(label="H(y | z), computed", points=tuple((g, floors.given_z) for g in GIVEN)),
            Limit(label="H(y), computed", points=tuple((g, floors.free) for g in GIVEN)),
        ],
        caption="z* is the best of the candidates for the held-out text itself; the planner's plan "
        "is written from the prompt alone.",
    )
    most = floors.free - floors.given_u
    gain = ctx.series(
        "gain",
        "What a plan is worth",
        x=Axis(label="given", scale="category"),
        y=Axis(label="NLL of y without a plan, less that with it", unit="nats"),
        direction="higher",
        variants=used,
        limits=[Limit(label="I(u; y), computed", points=tuple((g, most) for g in GIVEN[:-1]))],
        caption="The difference within each training, and the interval of its mean over trainings: "
        "where it holds zero, nothing is shown.",
    )
    codes = ctx.series(
        "codes",
        "Codes in use",
        x=Axis(label="type", scale="category"),
        y=Axis(
            label="different codes in z*, chosen by S",
            unit="codes",
            least=0.0,
            most=float(task.codes),
        ),
        direction="higher",
        variants=used,
        limits=[
            Limit(
                label="all",
                points=tuple((f"type {k + 1}", float(task.codes)) for k in range(task.types)),
            )
        ],
    )
    price = ctx.series(
        "price",
        "What plan and text cost together",
        x=Axis(label="plan", scale="category"),
        y=Axis(label="-S(z)", unit="nats"),
        direction="lower",
        variants=used,
        limits=[
            Limit(label="H(y | u), computed", points=tuple((p, floors.given_u) for p in PLANS))
        ],
        caption="S(z) = log p(y|z) + log p(z|u) never exceeds log p(y|u).",
    )
    for variant in used:
        ems = runs[variant.name]
        scored = [em.best_plans(1.0) for em in ems]
        greedy = [em.planner.sample(em.held_u, 0.0) for em in ems]
        for name, zs in zip(PLANS, (scored, greedy), strict=True):
            costs = [em.price(z) for em, z in zip(ems, zs, strict=True)]
            price.add(over_seeds(variant.name, name, costs))
        plans = [em.best_plans() for em in ems]
        shuffle = generator(ctx.seed)
        orders = [torch.randperm(len(z), generator=shuffle) for z in plans]
        values = (
            [em.nll(z) for em, z in zip(ems, plans, strict=True)],
            [em.nll(z) for em, z in zip(ems, greedy, strict=True)],
            [em.nll(z[o]) for em, z, o in zip(ems, plans, orders, strict=True)],
            [em.free_nll() for em in ems],
        )
        for given, found in zip(GIVEN, values, strict=True):
            nll.add(over_seeds(variant.name, given, found))
        *with_plans, without = values
        for given, found in zip(GIVEN[:-1], with_plans, strict=True):
            worth = [free - cost for free, cost in zip(without, found, strict=True)]
            gain.add(over_seeds(variant.name, given, worth))
        # Counted in plans chosen by S: where no plan matters, log p(y|z) alone picks at random, and
        # mutations alone would look like many codes.
        for k in range(task.types):
            counts = [float(em.codes_used(z)[k]) for em, z in zip(ems, scored, strict=True)]
            codes.add(over_seeds(variant.name, f"type {k + 1}", counts))


GIVEN = ("z*", "the planner's z", "another text's z*", "nothing")
PLANS = ("z*, chosen by S", "the planner's z")


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

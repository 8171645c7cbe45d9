"""v3 measured on a task whose entropies are known."""

import math
import time
from dataclasses import replace

import torch

from ..context import Context
from ..kit.report import Charts, Stages
from ..kit.seeds import generator
from ..protocol import Limit
from . import checks
from .spec import PlannerParams
from .synthetic import PlanTask
from .v3.em import Curriculum, EMSettings, HardEM
from .v3.monitors import Trace, diagnose

Priced = dict[str, dict[str, float]]  # by series, what plans of a kind cost or use


def asked(params: PlannerParams) -> PlanTask:
    """The benchmark's task."""
    return PlanTask(**params.model_dump(include={"types", "bits", "slots"}))


def make(params: PlannerParams, seed: int, naive: bool = False) -> HardEM:
    """Planner, executor and recogniser for the benchmark's task."""
    task = asked(params)
    shape = replace(task.shape(), **params.model_dump(include={"sequence", "mtp"}))
    if naive:  # without all that keeps it from collapsing
        plan = Curriculum(warm_up=0, steps=params.naive_steps, drop=0.0, anneal=0.0)
        return HardEM(task, shape, EMSettings(seed=seed, usage_bonus=0.0, recogniser=False), plan)
    plan = Curriculum(**params.model_dump(include={"warm_up", "through", "steps", "cool", "grow"}))
    return HardEM(task, shape, EMSettings(seed=seed, beams=params.beams), plan)


def planner(ctx: Context, params: PlannerParams) -> None:
    """Train `seeds` times, and the naive variant beside it."""
    torch.set_num_threads(1)  # small matrices: threads would only wait for each other
    ctx.check_all("typed_plans", checks.typed_plans(ctx.device))
    charts, seconds = Charts(ctx, __file__), []
    compared = ("ours", "naive") if params.naive_steps else ("ours",)
    runs: dict[str, list[Priced]] = {name: [] for name in compared}
    traces: dict[str, Trace] = {}
    stages = Stages(ctx, params.seeds * (params.warm_up + params.steps + params.naive_steps))
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        for name, prices in runs.items():
            em = make(params, seed, naive=name == "naive")
            on_step = stages.begin(em.curriculum.total, f"{name}, seed {seed}")
            begun = time.process_time()
            trace = em.train(on_step, watch=params.watch)
            if name == "ours":
                seconds.append(time.process_time() - begun)
            prices.append(priced(em, ctx.seed))
            traces.setdefault(name, trace)
            for action in diagnose(list(trace.values())[-1]):
                ctx.log(f"{name}, seed {seed}: {action.symptom}. Try: {action.action}.")
    _report(charts, runs, asked(params))
    draw_monitors(charts, traces)
    charts.seeds("seconds", {("ours", "all seeds"): seconds}, limits={"five minutes": 300.0})


def draw_monitors(charts: Charts, traces: dict[str, Trace]) -> None:
    """A series for each monitor that was measured in `traces`, by variant; and NLL by position."""
    rows = [(name, step, stats) for name, trace in traces.items() for step, stats in trace.items()]
    last = max(float(step) for _, step, _ in rows)
    for declared in charts.declared["series"]:
        monitor = declared.removeprefix("monitor_")
        if monitor in (declared, "buckets"):
            continue
        words = charts.words(declared)
        limits = [
            Limit(label=label, points=((0.0, words[end]), (last, words[end])))
            for label, end in (("normal from", "low"), ("normal to", "high"))
            if end in words
        ]
        series = charts.open(declared, traces, limits=limits)
        for name, step, stats in rows:
            if math.isfinite(value := getattr(stats, monitor)):
                series.add_exact(float(step), {name: value})
    buckets = charts.open("monitor_buckets", traces)
    for name, trace in traces.items():
        for i, value in enumerate(list(trace.values())[-1].buckets):
            buckets.add_exact(float(i), {name: value})


def _report(charts: Charts, runs: dict[str, list[Priced]], task: PlanTask) -> None:
    """What the plans carry, and how many codes they use."""
    (known, free), codes = task.floors, float(task.codes)
    limits = {
        "nll": {"H(y | z), computed": known, "H(y), computed": free},
        "gain": {"I(u; y), computed": free - known},
        "codes": {"all": codes},
        "price": {"H(y | u), computed": known},
    }
    for name, lines in limits.items():
        table = {
            (variant, key): [prices[name][key] for prices in seeds]
            for variant, seeds in runs.items()
            for key in seeds[0][name]
        }
        charts.seeds(name, table, limits=lines, most=codes if name == "codes" else None)


def priced(em: HardEM, seed: int) -> Priced:
    """What plans for the held-out texts cost, nats, and how many codes they use, by series.

    The plans are chosen for the text itself, written by the planner, or another text's. Codes are
    counted in plans chosen by S: where no plan matters, log p(y|z) alone picks at random, and
    mutations alone would look like many codes.
    """
    best, scored, greedy = em.best_plans(), em.best_plans(1.0), em.planner.sample(em.held_u, 0.0)
    other = best[torch.randperm(len(best), generator=generator(seed))]
    plans = {"z*": best, "the planner's z": greedy, "another text's z*": other}
    nll, free = {given: em.nll(z) for given, z in plans.items()}, em.free_nll()
    return {
        "nll": nll | {"nothing": free},
        "gain": {given: free - cost for given, cost in nll.items()},
        "price": {"z*, chosen by S": em.price(scored), "the planner's z": em.price(greedy)},
        "codes": {f"type {k + 1}": float(n) for k, n in enumerate(em.codes_used(scored))},
    }


def dropout(ctx: Context, params: PlannerParams) -> None:
    """Reconstruction NLL against the share of concepts dropped at evaluation."""
    torch.set_num_threads(1)
    ctx.check_all("typed_plans", checks.typed_plans(ctx.device))
    stages = Stages(ctx, params.seeds * (params.warm_up + params.steps))
    shares = [i / 10 for i in range(11)]
    table: dict[tuple[str, float], list[float]] = {("ours", share): [] for share in shares}
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        em = make(params, seed)
        em.train(stages.begin(em.curriculum.total, f"seed {seed}"), params.watch)
        whole = em.best_plans()
        e, used = em.executor.read(whole)
        for share in shares:
            lost = torch.rand(whole.shape, generator=generator(ctx.seed)) < share
            nll = em.executor.token_nll(e, used & ~lost[:, :, :-1], em.held_y)
            table["ours", share].append(float(nll.detach().sum(1).mean()))
    known, free = asked(params).floors

    def floor(share: float) -> float:
        return known + share * (free - known)

    limits = {"computed: H(y | the codes that are left)": floor}
    Charts(ctx, __file__).seeds("dropout", table, limits=limits)

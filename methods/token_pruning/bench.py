"""Quality: accuracy against tokens, operations and time, and what each loss learns."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from methods.context import Context
from methods.measure import flops
from methods.measure.statistics import over_seeds
from methods.measure.timing import compare
from methods.protocol import Axis, Limit, Variant
from methods.token_pruning import checks, toy
from methods.token_pruning.config import PruningConfig
from methods.token_pruning.loop import BEFORE, Stage, read
from methods.token_pruning.model import Pruner
from methods.token_pruning.picture import picture
from methods.token_pruning.selectors import REGISTRY
from methods.token_pruning.spec import TradeoffParams, TrainingParams
from methods.token_pruning.toy import Exam, split
from methods.token_pruning.training import History, Schedule, train

Plans = dict[str, Callable[[int], list[Stage]]]  # stages for an average of tokens a layer

MERGED = 32
OURS = {
    "ours": "ours: merger, then heads",
    "ours_merger": "ours: merger alone",
    "ours_heads": "ours: heads alone",
}
SCHEDULED = {"random_schedule": "chance, our schedule", "oracle_schedule": "oracle, our schedule"}
WARNING = (
    "Baselines are often copied between papers and understated there: at 144 tokens chance "
    "reaches 95.0 and pooling 96.4 % of full accuracy (arXiv:2502.11501); past about layer 20 "
    "training-free pruning is no better than chance (arXiv:2512.07580). All rows were run here."
)


def plans(pruner: Pruner) -> Plans:
    """Every selection at equal average tokens: before the model, or by our schedule."""
    found: Plans = {name: partial(_before, name) for name, one in REGISTRY.items() if one.before}
    heads = [pruner.head_selector(layer) for layer in pruner.config.pruning_layers]
    merger = pruner.stages()[0].selector

    def ours(k: int) -> list[Stage]:
        return pruner.stages(split(k), merged=max(MERGED, split(k)[0]))

    def ours_heads(k: int) -> list[Stage]:
        places = zip(pruner.config.pruning_layers, split(k), heads, strict=True)
        return [Stage(layer, keep, head) for layer, keep, head in places]

    found |= {
        "ours": ours,
        "ours_merger": lambda k: [Stage(BEFORE, k, merger)],
        "ours_heads": ours_heads,
    }
    for name in ("random", "oracle"):
        found[f"{name}_schedule"] = partial(_scheduled, name, pruner.config)
    return found


def _before(name: str, k: int) -> list[Stage]:
    return [Stage(BEFORE, k, REGISTRY[name])]


def _scheduled(name: str, config: PruningConfig, k: int) -> list[Stage]:
    chosen, keep = REGISTRY[name], split(k)
    later = zip(config.pruning_layers, keep, strict=True)
    return [
        Stage(BEFORE, max(MERGED, keep[0]), chosen),
        *(Stage(layer, count, chosen) for layer, count in later),
    ]


def learn(
    llava: Any,
    config: PruningConfig,
    steps: int,
    seed: int,
    *,
    tell: Callable[[int, History], None] | None = None,
    checkpoint: Path | None = None,
) -> tuple[Pruner, History]:
    """A pruner trained on drawn scenes for a frozen model."""
    pruner = Pruner(llava, config, seed=seed).to(llava.device)
    schedule = Schedule(steps, seed)
    draw = toy.batches(seed, device=str(llava.device))
    history = train(pruner, draw, schedule, on_step=tell, checkpoint=checkpoint)
    return pruner, history


class _Clock:
    """Progress over models and pruners of a run."""

    def __init__(self, ctx: Context, total: int) -> None:
        self.ctx, self.total, self.done = ctx, total, 0

    def base(self, seed: int) -> Callable[[int, int, str], None]:
        return lambda step, _of, said: self.ctx.progress(
            self.done + step, self.total, f"seed {seed}: {said}"
        )

    def pruner(self, what: str) -> Callable[[int, History], None]:
        return lambda step, history: self.ctx.progress(
            self.done + step, self.total, f"{what}: {history.accuracy[-1]:.0%} right"
        )


def _base(ctx: Context, params: TradeoffParams | TrainingParams, seed: int, clock: _Clock) -> Any:
    llava = toy.trained(
        seed, params.base_steps, tell=clock.base(seed), folder=params.folder, model=params.model
    )
    clock.done += toy.WARM_UP + params.base_steps
    return llava.to(ctx.device)


def _readable(model: str) -> None:
    """A model that cannot be used is refused before anything is measured."""
    if model:
        toy.trained(0, 1, model=model)


def _checkpoint(folder: str, name: str) -> Path | None:
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / f"{name}.pt"


def tradeoff(ctx: Context, params: TradeoffParams) -> None:
    """Train a model and a pruner a seed, then judge every selection on the same questions."""
    torch.set_num_threads(1)
    _readable(params.model)
    ctx.check_all("identity", checks.identity(ctx.device))
    ctx.check_all("positions", checks.positions(ctx.device))
    ctx.log(WARNING)
    clock = _Clock(ctx, params.seeds * (toy.WARM_UP + params.base_steps + params.steps))
    full: list[float] = []
    found: dict[tuple[str, int], list[float]] = {}
    inside: dict[tuple[str, int], list[float]] = {}
    for seed in range(params.seeds):
        llava = _base(ctx, params, seed, clock)
        pruner, _ = learn(
            llava,
            toy.pruning(),
            params.steps,
            seed,
            tell=clock.pruner(f"seed {seed}, pruner"),
            checkpoint=_checkpoint(params.folder, f"tradeoff-{seed}"),
        )
        clock.done += params.steps
        exam = Exam(llava, params.judged, seed)
        full.append(exam.accuracy())
        ctx.log(f"seed {seed}: unpruned {full[-1]:.1%} right, {said(exam.by_kind())}")
        ways = plans(pruner)
        for k in params.budgets:
            for name, way in ways.items():
                draws = params.draws if name.startswith("random") else 1
                accuracy = [exam.accuracy(way(k), draw) for draw in range(draws)]
                found.setdefault((name, k), []).append(sum(accuracy) / draws)
            kinds = said(exam.by_kind(ways["ours"](k)))
            ctx.log(f"seed {seed}, {k} tokens a layer: ours {kinds}")
            for name in ("random", "fastv", "ours_heads", "oracle"):
                chosen = REGISTRY.get(name) or pruner.head_selector(2)
                inside.setdefault((name, k), []).append(exam.accuracy([Stage(2, k, chosen)]))
    _accuracy(ctx, found, inside, full, params.budgets)
    costs, seconds = _costs(ctx, ways, exam, params)
    operations = Axis(label="operations to the first token", unit="% of unpruned")
    _pareto(ctx, "flops", operations, costs, found)
    _pareto(ctx, "time", Axis(label="time to the first token", unit="ms"), seconds, found)
    ctx.artefact("kept.svg", picture(exam, pruner.stages(split(min(params.budgets)))))


def said(kinds: dict[str, float]) -> str:
    """Accuracy by kind of question in words."""
    return ", ".join(f"{name} {right:.1%}" for name, right in kinds.items())


def variants(names: Sequence[str]) -> list[Variant]:
    """Labels of selections."""
    labels = {one.name: one.label for one in REGISTRY.values()} | OURS | SCHEDULED
    return [Variant(name=name, label=labels[name], ours=name in OURS) for name in names]


def _accuracy(
    ctx: Context,
    found: dict[tuple[str, int], list[float]],
    inside: dict[tuple[str, int], list[float]],
    full: list[float],
    budgets: Sequence[int],
) -> None:
    whole = sum(full) / len(full)
    for title, name, table in (
        ("Accuracy at equal average tokens", "accuracy", found),
        ("Dropping before layer 2, all 64 seen by layers 0 and 1", "inside", inside),
    ):
        names = list(dict.fromkeys(key for key, _ in table))
        series = ctx.series(
            name,
            title,
            x=Axis(label="visual tokens a layer", unit="tokens"),
            y=Axis(label="right answers", unit="%", least=0.0, most=100.0),
            direction="higher",
            variants=variants(names),
            baseline="random",
            limits=[
                Limit(
                    label="unpruned, 64 tokens",
                    points=tuple((float(k), 100 * whole) for k in budgets),
                )
            ],
            caption=WARNING
            if name == "accuracy"
            else "By layer 2 what is asked for has mostly "
            "been read: chance at the same layer is the control for any saliency.",
        )
        for (way, k), values in table.items():
            chance = [100 * max(v, 1e-4) for v in table["random", k]]
            series.add(
                over_seeds(
                    way,
                    k,
                    [100 * max(v, 1e-4) for v in values],
                    baseline=None if way == "random" else chance,
                )
            )


Costs = dict[tuple[str, int], float]


def _costs(ctx: Context, ways: Plans, exam: Exam, params: TradeoffParams) -> tuple[Costs, Costs]:
    """Operations in per cent of the unpruned model's, counted, and milliseconds of 64 questions."""
    counts: Costs = {}
    seconds: Costs = {}
    one = checks.rows_of(exam.prompt, 1)
    many = checks.rows_of(exam.prompt, min(64, len(exam.prompt.ids)))
    with sdpa_kernel(SDPBackend.MATH):  # the counter does not see the fused CPU kernel
        whole = flops.count(lambda: read(exam.llava, one))
        for name, way in ways.items():
            for k in params.budgets:
                stages = way(k)
                total = flops.count(partial(read, exam.llava, one, stages))
                counts[name, k] = 100 * total / whole
    for k in params.budgets:
        calls = {name: partial(read, exam.llava, many, way(k)) for name, way in ways.items()}
        timings = compare(
            calls, device=ctx.device, blocks=5, samples=1, max_warm_up_s=params.warm_up_s
        )
        seconds |= {(name, k): 1e3 * timings.median(name) for name in calls}
    return counts, seconds


def _pareto(
    ctx: Context,
    name: str,
    axis: Axis,
    costs: Costs,
    found: dict[tuple[str, int], list[float]],
) -> None:
    names = list(dict.fromkeys(key for key, _ in costs))
    series = ctx.series(
        f"pareto_{name}",
        f"Accuracy against {axis.label}",
        x=axis,
        y=Axis(label="right answers", unit="%", least=0.0, most=100.0),
        direction="higher",
        variants=variants(names),
        caption="Vision tower, projector, choice and reading counted together; the tower's share "
        "is large in a small model.",
    )
    for (way, k), cost in costs.items():
        values = [100 * max(v, 1e-4) for v in found[way, k]]
        series.add(over_seeds(way, cost, values))


LOSSES = {"adversarial": "adversarial", "mse": "feature matching", "none": "task and count only"}
ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "merger": ("merger alone", {"pruning_layers": (), "keep_tokens": (), "target_merge_tokens": 4}),
    "heads": ("heads alone", {"merger_type": "none"}),
    "simple": ("simple merger, then heads", {"merger_type": "simple"}),
    "scaled": ("the source's scaled hidden states", {"gate": "scale"}),
    "unscored": ("the source's merger", {"scored_merge": False}),
    "late": ("dropped behind the layer", {"drop": "after"}),
}
WATCHED = {
    "learning": ("Right answers in training", "right answers", "%", "accuracy", 100.0),
    "task": ("Task loss in training", "cross entropy", "nats", "task", 1.0),
    "judge": ("Discriminator's loss", "cross entropy", "nats", "judge", 1.0),
    "kept": ("Mean gate of visual tokens", "mean m", "", "kept", 1.0),
}
FINAL_BUDGET = 4


def training(ctx: Context, params: TrainingParams) -> None:
    """Train with each loss and each ablation from one model a seed, on the same batches."""
    torch.set_num_threads(1)
    _readable(params.model)
    ctx.check_all("gradients", checks.gradients(ctx.device))
    configs = {name: toy.pruning(loss=name, keep_tokens=split(FINAL_BUDGET)) for name in LOSSES}
    for name, (_, changes) in ABLATIONS.items():
        values = {"loss": "none", "keep_tokens": split(FINAL_BUDGET)} | changes
        configs[name] = toy.pruning(**values)
    clock = _Clock(
        ctx, params.seeds * (toy.WARM_UP + params.base_steps + len(configs) * params.steps)
    )
    curves: dict[str, list[History]] = {name: [] for name in configs}
    final: dict[str, list[float]] = {"chance": [], "unpruned": [], **{n: [] for n in configs}}
    for seed in range(params.seeds):
        llava = _base(ctx, params, seed, clock)
        exam = Exam(llava, params.judged, seed)
        final["unpruned"].append(exam.accuracy())
        final["chance"].append(exam.accuracy(_scheduled("random", configs["none"], FINAL_BUDGET)))
        for name, config in configs.items():
            pruner, history = learn(
                llava,
                config,
                params.steps,
                seed,
                tell=clock.pruner(f"seed {seed}, {name}"),
                checkpoint=_checkpoint(params.folder, f"{name}-{seed}"),
            )
            clock.done += params.steps
            curves[name].append(history)
            final[name].append(exam.accuracy(pruner.stages()))
    _curves(ctx, curves, params.watch)
    _final(ctx, final)


def _curves(ctx: Context, curves: dict[str, list[History]], watch: int) -> None:
    for name, (title, label, unit, attribute, scale) in WATCHED.items():
        shown = ["adversarial"] if name == "judge" else list(LOSSES)
        series = ctx.series(
            name,
            title,
            x=Axis(label="step"),
            y=Axis(label=label, unit=unit),
            direction="higher" if name == "learning" else "lower",
            variants=[Variant(name=n, label=LOSSES[n], ours=n == "adversarial") for n in shown],
        )
        for loss in shown:
            values = [getattr(history, attribute) for history in curves[loss]]
            for begin in range(0, len(values[0]), watch):
                piece = [v[begin : begin + watch] for v in values]
                means = [scale * sum(p) / len(p) for p in piece]
                end = float(begin + len(piece[0]))
                series.add(over_seeds(loss, end, means))


def _final(ctx: Context, final: dict[str, list[float]]) -> None:
    labels = {"chance": "chance, our schedule", "unpruned": "unpruned"} | LOSSES
    labels |= {name: label for name, (label, _) in ABLATIONS.items()}
    series = ctx.series(
        "final",
        f"Right answers after training, {FINAL_BUDGET} visual tokens a layer",
        x=Axis(label="questions", scale="category"),
        y=Axis(label="right answers", unit="%", least=0.0, most=100.0),
        direction="higher",
        variants=[Variant(name=n, label=labels[n], ours=n in LOSSES) for n in final],
        baseline="none",
        caption="Dropped behind the layer costs more tokens: 32, 6, 6, 2 in place of 6, 6, 2, 2.",
    )
    reference = [100 * max(v, 1e-4) for v in final["none"]]
    for name, values in final.items():
        series.add(
            over_seeds(
                name,
                "held out",
                [100 * max(v, 1e-4) for v in values],
                baseline=None if name == "none" else reference,
            )
        )

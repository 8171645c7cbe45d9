"""Quality: accuracy against tokens and operations, and what each loss learns."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from methods.context import Context
from methods.kit.checkpoint import kept_in
from methods.kit.report import Stages, add_seeds
from methods.measure import flops
from methods.measure.statistics import over_seeds
from methods.protocol import Axis, Limit, Variant
from methods.token_pruning import checks, toy
from methods.token_pruning.choice import Selector
from methods.token_pruning.config import PruningConfig
from methods.token_pruning.loop import BEFORE, Stage, read
from methods.token_pruning.model import Pruner
from methods.token_pruning.picture import picture
from methods.token_pruning.selectors import REGISTRY
from methods.token_pruning.spec import TradeoffParams, TrainingParams
from methods.token_pruning.toy import Exam, split
from methods.token_pruning.training import History, Schedule, train

Plans = dict[str, Callable[[int], list[Stage]]]  # stages for an average of tokens a layer
Table = dict[tuple[str, float | str], list[float]]  # per cent right of each seed, by way and budget

MERGED = 32
LAYERS = (0, 2)  # before which tokens are dropped, ours and others at equal cost
TWICE = ("random", "divprune", "cdpruner", "cdpruner_mean", "sparsevlm", "pyramiddrop", "oracle")
OURS = {"ours": "ours: taught heads", "ours_merger": "ours: merger, then heads, taught"}
BOUNDS = {"chance": "chance, our schedule", "unpruned": "unpruned"}
BOTH = {f"{name}_both": f"{REGISTRY[name].label}, at both layers" for name in TWICE}
CROWDED = {"objects": 16, "clutter": 0.6}  # scenes of another kind than the heads were taught on
WARNING = (
    "Baselines are often copied between papers and understated there: at 144 tokens chance "
    "reaches 95.0 and pooling 96.4 % of full accuracy (arXiv:2502.11501); past about layer 20 "
    "training-free pruning is no better than chance (arXiv:2512.07580). All rows were run here."
)


def plans(pruner: Pruner) -> Plans:
    """Every selection at equal average tokens: before the model, or before two of its layers."""
    found: Plans = {name: partial(_before, name) for name, one in REGISTRY.items() if one.before}
    found |= {f"{name}_both": partial(_both, [REGISTRY[name]] * 2) for name in TWICE}
    found["ours"] = partial(_both, [pruner.head_selector(layer) for layer in LAYERS])
    if pruner.merger is not None:
        found["ours_merger"] = lambda k: pruner.stages(split(k), merged=max(MERGED, split(k)[0]))
    return found


def _before(name: str, k: int) -> list[Stage]:
    return [Stage(BEFORE, k, REGISTRY[name])]


def _both(selectors: Sequence[Selector], k: int) -> list[Stage]:
    places = zip(LAYERS, split(k), selectors, strict=True)
    return [Stage(layer, keep, selector) for layer, keep, selector in places]


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


def _base(ctx: Context, params: TradeoffParams | TrainingParams, seed: int, stages: Stages) -> Any:
    tick = stages.begin(toy.WARM_UP + params.base_steps, f"seed {seed}, unpruned model")
    llava = toy.trained(
        seed,
        params.base_steps,
        tell=tick,
        folder=params.folder,
        model=params.model,
        looks=params.looks,
    )
    return llava.to(ctx.device)


def _readable(model: str) -> None:
    """A model that cannot be used is refused before anything is measured."""
    if model:
        toy.trained(0, 1, model=model)


def tradeoff(ctx: Context, params: TradeoffParams) -> None:
    """Train a model and a pruner a seed, then judge every selection on the same questions."""
    torch.set_num_threads(1)
    _readable(params.model)
    ctx.check_all("identity", checks.identity(ctx.device))
    ctx.check_all("positions", checks.positions(ctx.device))
    ctx.log(WARNING)
    each = toy.WARM_UP + params.base_steps + params.steps + params.judged
    stages = Stages(ctx, params.seeds * each)
    full: dict[str, list[float]] = {"usual": [], "crowded": []}
    tables: dict[str, Table] = {name: defaultdict(list) for name in TITLES}
    for seed in range(params.seeds):
        llava = _base(ctx, params, seed, stages)
        pruner, _ = learn(
            llava,
            toy.pruning(loss="attention"),
            params.steps,
            seed,
            tell=stages.begin(params.steps, f"seed {seed}, pruner"),
            checkpoint=kept_in(params.folder, f"tradeoff-{seed}"),
        )
        tick = stages.begin(params.judged, f"seed {seed}, questions")
        exam = Exam(llava, params.judged, seed)
        crowded = Exam(llava, params.judged, seed, **CROWDED)
        full["usual"].append(exam.accuracy())
        full["crowded"].append(crowded.accuracy())
        ctx.log(f"seed {seed}: unpruned {full['usual'][-1]:.1%} right, {said(exam.by_kind())}")
        ways = plans(pruner)
        inside = {name: REGISTRY[name] for name in ("random", "fastv", "pyramiddrop", "oracle")}
        inside["ours"] = pruner.head_selector(2)
        for done, k in enumerate(params.budgets):
            for name, way in ways.items():
                _note(tables["accuracy"][name, k], name, exam, way(k), params.draws)
            for name in ("random_both", "cdpruner_both", "ours", "oracle_both"):
                _note(tables["crowded"][name, k], name, crowded, ways[name](k), params.draws)
            for name, chosen in inside.items():
                _note(tables["inside"][name, k], name, exam, [Stage(2, k, chosen)], params.draws)
            tick(params.judged * (done + 1) / len(params.budgets))
            kinds = said(exam.by_kind(ways["ours"](k)))
            ctx.log(f"seed {seed}, {k} tokens a layer: ours {kinds}")
    for name, table in tables.items():
        whole = full["crowded" if name == "crowded" else "usual"]
        _accuracy(ctx, name, table, sum(whole) / len(whole), params.budgets)
    costs = _costs(ways, exam, params.budgets)
    _show(
        ctx,
        "pareto_flops",
        "Accuracy against operations to the first token",
        Axis(label="operations to the first token", unit="% of unpruned"),
        {(way, costs[way, k]): right for (way, k), right in tables["accuracy"].items()},
        caption="Vision tower, projector, choice and reading counted together; the tower's share "
        "is large in a small model.",
    )
    ctx.artefact("kept.svg", picture(exam, ways["ours"](min(params.budgets))))


def _note(values: list[float], name: str, exam: Exam, stages: list[Stage], draws: int) -> None:
    """Add a seed's accuracy in per cent, the mean of several draws where chance decides."""
    many = range(draws if name.startswith("random") else 1)
    right = [exam.accuracy(stages, draw) for draw in many]
    values += _per_cent([sum(right) / len(right)])


def _per_cent(shares: Sequence[float]) -> list[float]:
    """Never quite 0, of which no ratio could be had."""
    return [100 * max(share, 1e-4) for share in shares]


def said(kinds: dict[str, float]) -> str:
    """Accuracy by kind of question in words."""
    return ", ".join(f"{name} {right:.1%}" for name, right in kinds.items())


def variants(names: Sequence[str]) -> list[Variant]:
    """Labels of selections."""
    labels = {one.name: one.label for one in REGISTRY.values()} | OURS | BOTH | BOUNDS | LOSSES
    labels |= {name: label for name, (label, _) in ABLATIONS.items()}
    return [Variant(name=n, label=labels[n], ours=n in (*OURS, "attention")) for n in names]


TITLES = {
    "accuracy": ("Accuracy at equal average tokens", WARNING),
    "inside": (
        "Dropping before layer 2, all 64 seen by layers 0 and 1",
        "By layer 2 what is asked for has mostly been read: chance at the same layer is the "
        "control for any saliency.",
    ),
    "crowded": (
        "Scenes of another kind: 16 objects, more clutter",
        "Heads taught on 12 objects choose among 16; the unpruned model is the same.",
    ),
}


RIVALS = {"accuracy": "cdpruner_both", "inside": "fastv", "crowded": "cdpruner_both"}
TOKENS = Axis(label="visual tokens a layer", unit="tokens")


def _show(
    ctx: Context,
    name: str,
    title: str,
    x: Axis,
    table: Table,
    *,
    baseline: str | None = None,
    limits: Sequence[Limit] = (),
    caption: str = "",
) -> None:
    """Per cent right of every way in a table, each against the baseline at its x."""
    series = ctx.series(
        name,
        title,
        x=x,
        y=Axis(label="right answers", unit="%", least=0.0, most=100.0),
        direction="higher",
        variants=variants(list(dict.fromkeys(way for way, _ in table))),
        baseline=baseline,
        limits=limits,
        caption=caption,
    )
    add_seeds(series, table, baseline)


def _accuracy(ctx: Context, name: str, table: Table, whole: float, budgets: Sequence[int]) -> None:
    """All ways against chance, and ours against the baseline that comes nearest.

    The latter seed by seed: models differ more than ways.
    """
    title, caption = TITLES[name]
    points = tuple((float(k), 100 * whole) for k in budgets)
    limits = [Limit(label="unpruned, 64 tokens", points=points)]
    chance, rival = "random_both" if name == "crowded" else "random", RIVALS[name]
    _show(ctx, name, title, TOKENS, table, baseline=chance, limits=limits, caption=caption)
    both = {key: values for key, values in table.items() if key[0] in (rival, "ours")}
    title += ": ours against its rival, seed by seed"
    _show(ctx, f"{name}_ahead", title, TOKENS, both, baseline=rival)


def _costs(ways: Plans, exam: Exam, budgets: Sequence[int]) -> dict[tuple[str, float | str], float]:
    """Operations to the first token in per cent of the unpruned model's, counted."""
    one = exam.prompt.each(lambda part: part[:1])
    with sdpa_kernel(SDPBackend.MATH):  # the counter does not see the fused CPU kernel
        whole = flops.count(lambda: read(exam.llava, one))
        return {
            (name, k): 100 * flops.count(partial(read, exam.llava, one, way(k))) / whole
            for name, way in ways.items()
            for k in budgets
        }


LOSSES = {
    "adversarial": "adversarial",
    "mse": "feature matching",
    "none": "task and count only",
    "attention": "ours: the model's own attention",
}
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
    each = toy.WARM_UP + params.base_steps + len(configs) * params.steps
    stages = Stages(ctx, params.seeds * each)
    curves: dict[str, list[History]] = {name: [] for name in configs}
    final: dict[str, list[float]] = {"chance": [], "unpruned": [], **{n: [] for n in configs}}
    for seed in range(params.seeds):
        llava = _base(ctx, params, seed, stages)
        exam = Exam(llava, params.judged, seed)
        final["unpruned"].append(exam.accuracy())
        final["chance"].append(exam.accuracy(_both([REGISTRY["random"]] * 2, FINAL_BUDGET)))
        for name, config in configs.items():
            pruner, history = learn(
                llava,
                config,
                params.steps,
                seed,
                tell=stages.begin(params.steps, f"seed {seed}, {name}"),
                checkpoint=kept_in(params.folder, f"{name}-{seed}"),
            )
            curves[name].append(history)
            final[name].append(exam.accuracy(pruner.stages()))
    _curves(ctx, curves, params.watch)
    _show(
        ctx,
        "final",
        f"Right answers after training, {FINAL_BUDGET} visual tokens a layer",
        Axis(label="questions", scale="category"),
        {(name, "held out"): _per_cent(values) for name, values in final.items()},
        baseline="none",
        caption="Dropped behind the layer costs more tokens: 32, 6, 6, 2 in place of 6, 6, 2, 2.",
    )


def _curves(ctx: Context, curves: dict[str, list[History]], watch: int) -> None:
    for name, (title, label, unit, attribute, scale) in WATCHED.items():
        shown = ["adversarial"] if name == "judge" else list(LOSSES)[:3]
        series = ctx.series(
            name,
            title,
            x=Axis(label="step"),
            y=Axis(label=label, unit=unit),
            direction="higher" if name == "learning" else "lower",
            variants=variants(shown),
        )
        for loss in shown:
            values = [getattr(history, attribute) for history in curves[loss]]
            for begin in range(0, len(values[0]), watch):
                piece = [v[begin : begin + watch] for v in values]
                means = [scale * sum(p) / len(p) for p in piece]
                end = float(begin + len(piece[0]))
                series.add(over_seeds(loss, end, means))

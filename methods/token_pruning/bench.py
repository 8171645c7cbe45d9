"""Quality: accuracy against tokens and operations, and what each loss learns."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch

from ..context import Context
from ..errors import InputError
from ..kit.checkpoint import kept_in
from ..kit.images import Panel, panels
from ..kit.report import Charts, Stages
from . import checks, clips, scenes, toy
from .choice import BEFORE, Stage
from .core import read
from .practice import operations
from .selectors import REGISTRY
from .spec import Drawn, TradeoffParams, TrainingParams, VideoParams
from .toy import Exam, Plans, learn, leaving_at, leaving_twice, split
from .training import History

Table = dict[tuple[str, float | str], list[float]]  # per cent right of each seed, by way and budget

ELSEWHERE = ("random_both", "cdpruner_both", "ours", "oracle_both")  # also on crowded scenes
CROWDED = {"objects": 16, "clutter": 0.6}  # scenes of another kind than the heads were taught on
LOSSES = ("adversarial", "mse", "none", "attention")
ABLATIONS: dict[str, dict[str, Any]] = {
    "merger": {"pruning_layers": (), "keep_tokens": (), "target_merge_tokens": 4},
    "heads": {"merger_type": "none"},
    "simple": {"merger_type": "simple"},
    "scaled": {"gate": "scale"},
    "unscored": {"scored_merge": False},
    "late": {"drop": "after"},
}
WATCHED = {"learning": "accuracy", "task": "task", "judge": "judge", "kept": "kept"}
FINAL_BUDGET = 4


def _base(ctx: Context, params: Drawn, seed: int, stages: Stages) -> Any:
    tick = stages.begin(toy.WARM_UP + params.base_steps, f"seed {seed}, unpruned model")
    source = params.model_dump(include={"folder", "model", "looks"})
    return toy.trained(seed, params.base_steps, on_step=tick, **source).to(ctx.device)


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
    charts = Charts(ctx, __file__)
    ctx.log(charts.words("accuracy")["caption"])
    each = toy.WARM_UP + params.base_steps + params.steps + params.judged
    stages = Stages(ctx, params.seeds * each)
    full: dict[str, list[float]] = {"usual": [], "crowded": []}
    tables: dict[str, Table] = defaultdict(lambda: defaultdict(list))
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        llava = _base(ctx, params, seed, stages)
        config, kept = toy.pruning(loss="attention"), kept_in(params.folder, f"tradeoff-{seed}")
        tick = stages.begin(params.steps, f"seed {seed}, pruner")
        pruner, _ = learn(llava, config, params.steps, seed, on_step=tick, checkpoint=kept)
        tick = stages.begin(params.judged, f"seed {seed}, questions")
        exam = Exam(llava, params.judged, seed)
        crowded = Exam(llava, params.judged, seed, **CROWDED)
        full["usual"].append(exam.accuracy())
        full["crowded"].append(crowded.accuracy())
        ctx.log(f"seed {seed}: unpruned {full['usual'][-1]:.1%} right, {in_words(exam.by_kind())}")
        ways = toy.plans(pruner)
        late = {name: REGISTRY[name] for name in ("random", "fastv", "pyramiddrop", "oracle")}
        late["ours"] = pruner.head_selector(2)
        judged: dict[str, tuple[Exam, Plans]] = {
            "accuracy": (exam, ways),
            "inside": (exam, {name: partial(leaving_at, 2, way) for name, way in late.items()}),
            "crowded": (crowded, {name: ways[name] for name in ELSEWHERE}),
        }
        for done, k in enumerate(params.budgets):
            for what, (questions, shown) in judged.items():
                for name, way in shown.items():
                    _note(tables[what][name, k], name, questions, way(k), params.draws)
            tick(params.judged * (done + 1) / len(params.budgets))
            kinds = in_words(exam.by_kind(ways["ours"](k)))
            ctx.log(f"seed {seed}, {k} tokens a layer: ours {kinds}")
    for name, table in tables.items():
        whole = full["crowded" if name == "crowded" else "usual"]
        charts.seeds(name, table, limits={"unpruned, 64 tokens": 100 * sum(whole) / len(whole)})
        ahead = f"{name}_ahead"  # seed by seed: models differ more than ways
        both = ("ours", charts.words(ahead)["baseline"])
        charts.seeds(ahead, {at: seeds for at, seeds in table.items() if at[0] in both})
    costs = _costs(ways, exam, params.budgets)
    by_cost = {(way, costs[way, k]): right for (way, k), right in tables["accuracy"].items()}
    charts.seeds("pareto_flops", by_cost)
    ctx.artefact("kept.svg", picture(exam, ways["ours"](min(params.budgets))))


def _note(values: list[float], name: str, exam: Exam, stages: list[Stage], draws: int) -> None:
    """Add a seed's accuracy in per cent, the mean of several draws where chance decides."""
    many = range(draws if name.startswith("random") else 1)
    right = [exam.accuracy(stages, draw) for draw in many]
    values.append(100 * sum(right) / len(right))


def in_words(kinds: dict[str, float]) -> str:
    """Accuracy by kind of question, as text."""
    return ", ".join(f"{name} {right:.1%}" for name, right in kinds.items())


def _costs(ways: Plans, exam: Exam, budgets: Sequence[int]) -> dict[tuple[str, float | str], float]:
    """Operations to the first token in per cent of the unpruned model's, counted."""
    row = exam.prompt.each(lambda part: part[:1])
    plans = {(name, k): way(k) for name, way in ways.items() for k in budgets}
    return {at: 100 * share for at, share in operations(exam.llava, row, plans).items()}


def video(ctx: Context, params: VideoParams) -> None:
    """Train a model a seed, then judge what may be read of the same clips at equal tokens."""
    torch.set_num_threads(1)
    _readable(params.model)
    if max(params.kept) > params.frames:
        raise InputError(f"{max(params.kept)} frames are kept of clips of {params.frames}")
    ctx.check_all("identity", checks.identity(ctx.device))
    ctx.check_all("positions", checks.positions(ctx.device))
    charts, ways = Charts(ctx, __file__), clips.ways(params.frames)
    stages = Stages(ctx, params.seeds * (toy.WARM_UP + params.base_steps + params.judged))
    table: Table = defaultdict(list)
    whole = []
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        llava = _base(ctx, params, seed, stages)
        tick = stages.begin(params.judged, f"seed {seed}, questions about clips")
        exam = clips.Exam(llava, params.judged, seed, params.frames)
        whole.append(exam.accuracy())
        ctx.log(f"seed {seed}: all frames {whole[-1]:.1%} right, {in_words(exam.by_kind())}")
        for done, frames in enumerate(params.kept):
            tokens = frames * scenes.PATCHES
            for name, way in ways.items():
                _note(
                    table[name, tokens], name, exam, leaving_at(BEFORE, way, tokens), params.draws
                )
            tick(params.judged * (done + 1) / len(params.kept))
    every = f"all {params.frames} frames, {params.frames * scenes.PATCHES} tokens"
    charts.seeds("video", table, limits={every: 100 * sum(whole) / len(whole)})


QUESTIONS = 3


FADED = 'fill="#fff" fill-opacity=".85"'


CLEAR, FRAME = 'fill="none"', ' stroke="#d55e00" stroke-width="2"'


def picture(exam: Exam, stages: Sequence[Stage]) -> str:
    """An SVG: a row a question of the first scene, a column a stage, kept patches bright."""
    every = range(scenes.PATCHES)
    kept = read(exam.llava, exam.prompt, stages, vision=exam.vision).kept
    pixels, rows = (exam.drawn.pixels[0].clamp(-1, 1) + 1) / 2, []
    for question in range(QUESTIONS):
        ask, shape = exam.asked.ids[0, question].tolist()
        needed = exam.asked.needed[0, question].tolist()
        shown = [Panel("all", dict.fromkeys(needed, CLEAR + FRAME))]
        for at, index in kept.items():
            gone = dict.fromkeys(set(every) - set(index[question].tolist()), FADED)
            frames = {patch: gone.get(patch, CLEAR) + FRAME for patch in needed}
            shown.append(Panel("merger" if at == BEFORE else f"before layer {at}", gone | frames))
        words = scenes.KINDS[ask - scenes.ASK_COLOUR], scenes.SHAPE_NAMES[shape - scenes.SHAPE_0]
        rows.append(("\n".join(words), pixels, shown))
    title = "Patches kept by stage and question; outlined, those the answer needs"
    return panels(title, rows, grid=scenes.GRID, side=scenes.SIDE, left=92)


def training(ctx: Context, params: TrainingParams) -> None:
    """Train with each loss and each ablation from one model a seed, on the same batches."""
    torch.set_num_threads(1)
    _readable(params.model)
    ctx.check_all("gradients", checks.gradients(ctx.device))
    rows: dict[str, dict[str, Any]] = {loss: {"loss": loss} for loss in LOSSES} | ABLATIONS
    usual = {"loss": "none", "keep_tokens": split(FINAL_BUDGET)}
    configs = {name: toy.pruning(**(usual | changes)) for name, changes in rows.items()}
    each = toy.WARM_UP + params.base_steps + len(configs) * params.steps
    stages = Stages(ctx, params.seeds * each)
    curves: dict[str, list[History]] = {name: [] for name in configs}
    final: dict[str, list[float]] = {"chance": [], "unpruned": [], **{n: [] for n in configs}}
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        llava = _base(ctx, params, seed, stages)
        exam = Exam(llava, params.judged, seed)
        final["unpruned"].append(exam.accuracy())
        final["chance"].append(exam.accuracy(leaving_twice([REGISTRY["random"]] * 2, FINAL_BUDGET)))
        for name, config in configs.items():
            tick = stages.begin(params.steps, f"seed {seed}, {name}")
            kept = kept_in(params.folder, f"{name}-{seed}")
            pruner, history = learn(
                llava, config, params.steps, seed, on_step=tick, checkpoint=kept
            )
            curves[name].append(history)
            final[name].append(exam.accuracy(pruner.stages()))
    charts = Charts(ctx, __file__)
    for name, figure in WATCHED.items():
        shown = LOSSES[:1] if name == "judge" else LOSSES[:3]
        charts.seeds(name, _curve({loss: curves[loss] for loss in shown}, figure, params.watch))
    right = {
        (name, "held out"): [100 * share for share in values] for name, values in final.items()
    }
    charts.seeds("final", right, budget=FINAL_BUDGET)


def _curve(curves: Mapping[str, list[History]], figure: str, watch: int) -> Table:
    """Means over so many steps of what each history holds; accuracy in per cent."""
    table: Table = {}
    for loss, histories in curves.items():
        values = [getattr(history, figure) for history in histories]
        for begin in range(0, len(values[0]), watch):
            pieces = [curve[begin : begin + watch] for curve in values]
            scale = 100 if figure == "accuracy" else 1
            end = float(begin + len(pieces[0]))
            table[loss, end] = [scale * fmean(piece) for piece in pieces]
    return table

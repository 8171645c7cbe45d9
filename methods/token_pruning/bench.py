"""Accuracy against tokens and operations, the losses compared, and time to the first token."""

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ..context import Context, OpenSeries
from ..errors import InputError
from ..kit.checkpoint import kept_in
from ..kit.compare import relative
from ..kit.images import Panel, panels
from ..kit.report import Charts, Stages
from ..measure import memory
from ..measure.timing import Comparison, Variants, time_all
from ..protocol import Limit
from ..spec import Case
from . import accounting, checks, scenes, toy
from .choice import BEFORE, Stage
from .config import PruningConfig
from .core import read
from .generate import step
from .llava import encode, load_llava, sized, visual_tokens
from .model import Pruner, run
from .practice import operations
from .selectors import REGISTRY
from .spec import Drawn, LatencyParams, TradeoffParams, TrainingParams
from .stream import Cache, Entered, Prompt, Reading, Stream, embed
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
        config = toy.pruning(loss="attention")
        checkpoint = kept_in(params.folder, f"tradeoff-{seed}")
        tick = stages.begin(params.steps, f"seed {seed}, pruner")
        pruner, _ = learn(llava, config, params.steps, seed, on_step=tick, checkpoint=checkpoint)
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
    return {key: 100 * share for key, share in operations(exam.llava, row, plans).items()}


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
        for layer, index in kept.items():
            gone = dict.fromkeys(set(every) - set(index[question].tolist()), FADED)
            frames = {patch: gone.get(patch, CLEAR) + FRAME for patch in needed}
            label = "merger" if layer == BEFORE else f"before layer {layer}"
            shown.append(Panel(label, gone | frames))
        labels = scenes.KINDS[ask - scenes.ASK_COLOUR], scenes.SHAPE_NAMES[shape - scenes.SHAPE_0]
        rows.append(("\n".join(labels), pixels, shown))
    title = "Patches kept by stage and question; outlined, those the answer needs"
    return panels(title, rows, grid=scenes.GRID, side=scenes.SIDE, left=92)


def training(ctx: Context, params: TrainingParams) -> None:
    """Train with each loss and each ablation from one model a seed, on the same batches."""
    torch.set_num_threads(1)
    _readable(params.model)
    ctx.check_all("gradients", checks.gradients(ctx.device))
    rows: dict[str, dict[str, Any]] = {loss: {"loss": loss} for loss in LOSSES} | ABLATIONS
    rows = {n: row for n, row in rows.items() if not params.only or n in {"none", *params.only}}
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
            checkpoint = kept_in(params.folder, f"{name}-{seed}")
            pruner, history = learn(
                llava, config, params.steps, seed, on_step=tick, checkpoint=checkpoint
            )
            curves[name].append(history)
            final[name].append(exam.accuracy(pruner.stages()))
    charts = Charts(ctx, __file__)
    for name, figure in WATCHED.items():
        shown = LOSSES[:1] if name == "judge" else LOSSES[:3]
        some = {loss: curves[loss] for loss in shown if loss in curves}
        if some:
            charts.seeds(name, _curve(some, figure, params.watch))
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


Schedules = dict[str, list[Stage]]  # by variant


def schedule(llava: Any) -> PruningConfig:
    """The source's schedule at a model's sizes: layers and tokens in its proportions."""
    layers, visual = llava.config.text_config.num_hidden_layers, visual_tokens(llava)
    places = sorted({round(layer * layers / 32) for layer in (10, 20)} | {layers - 1})
    keep = [max(1, round(k * visual / 576)) for k in (200, 150, 100)][-len(places) :]
    return PruningConfig(
        pruning_layers=tuple(places),
        keep_tokens=tuple(keep),
        d_internal=max(16, llava.config.text_config.hidden_size // 8),
        discriminator_layers=(-1,),
    )


def latency_bytes(params: LatencyParams, device: str) -> int:
    """Weights, and the activations and caches of the largest batch; an estimate in bytes."""
    if params.model:
        return 0  # its sizes are known once it is read
    item = getattr(torch, params.dtype).itemsize
    s = accounting.Shape.of(sized(params.size))
    layer = 2 * s.d * s.d + 2 * s.d * s.d_kv + 3 * s.d * s.d_ff
    tower = s.vision_layers * (4 * s.d_vision**2 + 2 * s.d_vision * s.d_vision_ff)
    weights = s.layers * layer + 2 * s.vocab * s.d + tower
    tokens = max(params.batches) * (s.visual + params.text)
    return int(item * (weights + tokens * (3 * s.layers * 2 * s.d_kv + 12 * s.d_ff)))


def latency(ctx: Context, params: LatencyParams) -> None:
    """Time the source's schedule against the same model unpruned."""
    dtype = getattr(torch, params.dtype)
    with torch.device(ctx.device):  # random weights of 7 billion take minutes on a CPU
        llava = load_llava(params.model or sized(params.size), dtype=dtype).to(ctx.device)
    ctx.check_all("identity", checks.identity(ctx.device))
    ctx.check_all("caching", checks.caching(ctx.device))
    ctx.check_all("counted", checks.counted("cpu"))
    config = schedule(llava)
    pruner = Pruner(llava, config).to(ctx.device, dtype).eval()
    stages: Schedules = {
        "plain": [],
        "random": [Stage(at.layer, at.keep, REGISTRY["random"]) for at in pruner.stages()],
        "pruned": pruner.stages(),
    }
    shape = accounting.Shape.of(llava.config)
    attention = llava.config.text_config._attn_implementation
    ctx.log(
        f"{config.merged(shape.visual)} tokens leave the merger, {config.keep_tokens} the heads "
        f"before layers {config.pruning_layers}; attention backend {attention}; {params.dtype}"
    )
    timed = _series(ctx, shape, config, params)
    room = llava.config.text_config.max_position_embeddings
    if shape.visual + params.text + params.decoded > room:
        raise InputError(f"{params.text} words do not fit the model's {room} positions")
    comparisons = partial(_comparisons, ctx, params, llava, stages, timed)
    time_all(ctx, comparisons(), params, baseline="plain")
    layers = Charts(ctx, __file__).open("kv_layers", ("plain", "pruned"))
    prompt = checks.prompt_of(llava, 1, seed=0, text=params.text)
    for name in ("plain", "pruned"):
        for at, count in enumerate(read(llava, prompt, stages[name]).counts):
            layers.add_exact(float(at), {name: count})


def _comparisons(
    ctx: Context, params: LatencyParams, llava: Any, stages: Schedules, timed: dict[str, OpenSeries]
) -> Iterator[Comparison]:
    """Time to the first token, reading and decoding at every batch; memory is counted once."""

    def first(prompt: Prompt) -> Variants:
        ctx.check_all("at_shape", at_shape(llava, prompt, stages))
        cached = partial(read, llava, prompt, cached=True)
        ours = {name: partial(cached, plan) for name, plan in stages.items()}
        return {**ours, "transformers": partial(_theirs, llava, prompt)}

    def reading(batch: int, prompt: Prompt) -> Variants:
        vision = encode(llava, prompt.pixels)
        seen = partial(read, llava, prompt, cached=True, vision=vision)
        calls: Variants = {name: partial(seen, plan) for name, plan in stages.items()}
        if not ctx.repeated:  # exact to the byte, so the same in every process
            peaks = {name: memory.peak(call, ctx.device) for name, call in calls.items()}
            timed["memory"].add_exact(batch, peaks)
        return calls

    def decoding(batch: int, prompt: Prompt) -> Variants:
        caches = {n: read(llava, prompt, plan, cached=True).cache for n, plan in stages.items()}
        timed["kv_bytes"].add_exact(batch, {name: cache.bytes() for name, cache in caches.items()})
        token = prompt.ids[:, -1:]
        return {
            name: partial(_decode, llava, cache, token, params.decoded)
            for name, cache in caches.items()
        }

    for batch in params.batches:
        prompt = checks.prompt_of(llava, batch, seed=0, text=params.text)
        yield Comparison(timed["first"], batch, partial(first, prompt))
        yield Comparison(timed["prefill"], batch, partial(reading, batch, prompt))
        tokens = batch * params.decoded
        yield Comparison(timed["decode"], batch, partial(decoding, batch, prompt), work=tokens)


@torch.no_grad()
def at_shape(llava: Any, prompt: Prompt, stages: Schedules) -> Iterator[Case]:
    """Check what is timed at this prompt: unpruned against transformers, pruned against masking in
    the place of dropping, decoded against reading the whole sequence again.

    float32 is compared with float64, on the last row. Nothing is timed with gradients: see the
    check `gradients`.
    """
    bound, rows = (1e-4, len(prompt.ids)) if llava.dtype == torch.float32 else (5e-2, 1)
    row = slice(rows - 1, rows)
    last = prompt.each(lambda part: part[row])
    exact = copy.deepcopy(llava).double() if llava.dtype == torch.float32 else llava
    expected = _theirs(exact, last).logits[:, -1]
    logits = read(llava, prompt, stages["plain"], cached=True).logits[row, -1]
    yield Case(relative(logits, expected), bound, label=f"unpruned, {len(prompt.ids)} rows")
    for name in sorted(stages.keys() - {"plain"}):
        reading = read(llava, prompt, stages[name], cached=True)
        error = relative(reading.logits[row, -1], hidden_instead(exact, last, reading, row))
        yield Case(error, bound, label=f"{name}, {len(prompt.ids)} rows")
    for name in ("plain", "pruned"):
        quick, slow = checks.continued(llava, prompt, stages[name], 2)
        label = f"{name}, decoded after {prompt.ids.shape[1]} tokens, {len(prompt.ids)} rows"
        yield Case(relative(quick, slow), bound, label=label)


def hidden_instead(exact: Any, prompt: Prompt, reading: Reading, row: slice) -> Tensor:
    """Logits of that row of a reading when dropped tokens are masked instead of removed."""
    entered = reading.entered and Entered(reading.entered.features[row], reading.entered.index[row])
    stream = embed(exact, prompt, encode(exact, prompt.pixels), entered)
    stream.gate = torch.zeros_like(stream.patch, dtype=exact.dtype)
    stream.targets[:, -1] = 0  # the last place predicts

    def hide(layer: int, stream: Stream) -> None:
        if layer in reading.kept and stream.gate is not None:
            gone = stream.visual & ~torch.isin(stream.patch, reading.kept[layer][row])
            stream.gate = stream.gate.masked_fill(gone, torch.finfo(exact.dtype).min)

    return run(exact, stream, (), hide)[1]


def _series(
    ctx: Context, shape: accounting.Shape, config: PruningConfig, params: LatencyParams
) -> dict[str, OpenSeries]:
    """The series over the rows; `first`, `prefill` and `kv_bytes` with their counted limits."""
    prefill, first = (
        flops(shape, None, params.text) / flops(shape, config, params.text)
        for flops in (accounting.reading_flops, accounting.total_flops)
    )
    counts = accounting.token_counts(config, shape.layers, shape.visual, params.text)
    ctx.log(f"tokens by layer in the measured model: {counts}")
    fewer = shape.layers * (shape.visual + params.text) / sum(counts)
    fewest = {"first": first, "prefill": prefill, "kv_bytes": fewer}  # times fewer
    charts, opened = Charts(ctx, __file__), {}
    for name in ("first", "prefill", "decode", "kv_bytes", "memory"):
        label = f"{'tokens' if name == 'kv_bytes' else 'operations'}, times fewer"
        points = tuple((float(batch), fewest[name]) for batch in params.batches if name in fewest)
        limits = [Limit(label=label, points=points, of="ratio")] if points else []
        shown = None if name == "first" else ("plain", "random", "pruned")
        opened[name] = charts.open(name, shown, limits=limits)
    return opened


@torch.no_grad()
def _theirs(llava: Any, prompt: Prompt) -> Any:
    return llava(input_ids=prompt.ids, pixel_values=prompt.pixels, use_cache=True, logits_to_keep=1)


def _decode(llava: Any, cache: Cache, token: Tensor, new: int) -> None:
    """Decode `new` tokens, then restore the cache."""
    bias, position = list(cache.bias), cache.position
    for _ in range(new):
        step(llava, token, cache)
    for layer in cache.kv.layers:
        layer.crop(-new)
    cache.bias, cache.position = bias, position

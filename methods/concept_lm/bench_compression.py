"""Bits a byte against operations a byte: v2 and its baselines from one base, and from nothing."""

from collections.abc import Callable
from html import escape
from typing import Any

import torch

from ..context import Context
from ..kit.corpus import Corpus, folder, stdlib
from ..kit.images import drawing
from ..kit.report import Charts, Stages
from ..kit.training import Plan
from ..protocol import Variant
from . import checks
from .base import load_base, tiny_config
from .baselines import NAMES, WITH_CONCEPTS, Judgement, candidate, equal_split, front, judge
from .config import ConceptConfig, recommended
from .marks import marks
from .model import ConceptLM
from .practice import load, size, tokenised
from .spec import CompressionParams, ScratchParams
from .train import OnText, train
from .v3.monitors import diagnose

OnTraining = Callable[..., None]  # called with the steps done
WATCHED = ("random", "faithful", "recommended")  # whose diagnosis is logged


def configure(name: str, params: CompressionParams) -> ConceptConfig:
    """The configuration of a candidate."""
    split = equal_split(params.split, params.rho) if name == "equal" else params.split
    values: dict[str, Any] = {"rho": params.rho, "n_concepts": params.n_concepts}
    if name == "recommended":
        return recommended(*split, **values)
    values["boundary"] = {"stride": "fixed", "hnet": "hnet"}.get(name, "null")
    return ConceptConfig(*split, **values)


def compression(ctx: Context, params: CompressionParams) -> None:
    """One base a seed, pretrained here or real; every candidate tuned alike, judged held out."""
    torch.set_num_threads(1)
    ctx.check_all("dropped_layers", checks.dropped_layers(ctx.device))
    corpus, real, a_byte = stdlib(), None, 1.0  # tokens a byte
    if params.model:
        real, tokenizer = load(params.model, "float32", ctx.device)
        corpus = tokenised(corpus, tokenizer)
        x = corpus.judged(params.judged, params.length)[:, 1:]
        a_byte = x.numel() / size(tokenizer, x)
    unit = "tokens" if real else "bytes"
    ctx.log(f"standard library sources {corpus.digest}: {len(corpus.train)} {unit} to train on")
    first = 0 if real else params.pretrain_steps
    stages = Stages(ctx, params.seeds * (first + len(NAMES) * params.steps))
    judged: dict[str, list[Judgement]] = {name: [] for name in NAMES}
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        sizes = corpus, params.rows, params.length
        base = real or _pretrained(params, sizes, seed, stages.begin(first, "base"))
        for name in NAMES:
            config = configure(name, params)  # not the batches of pretraining
            learner = candidate(name, base, config, *sizes, seed + 1_000)
            on_step = stages.begin(params.steps, name)
            train(learner, Plan(params.steps, params.lr, seed=seed), on_step=on_step)
            judged[name].append(judge(learner, params.judged).times(a_byte))
    charts = Charts(ctx, __file__)
    charts.seeds("pareto", front(judged))
    _codes(charts, judged)
    for name in WATCHED:
        for action in diagnose(judged[name][0].stats):
            ctx.log(f"{name}: {action.symptom}. Try: {action.action}.")
    if not real:  # of bytes
        ctx.artefact("boundaries.svg", heat_map(learner, params.length))


def _pretrained(
    params: CompressionParams, sizes: tuple[Corpus, int, int], seed: int, on_step: OnTraining
) -> Any:
    """A small base that has learned plain text."""
    d_ff = 8 * params.d // 3 // 32 * 32
    base = load_base(tiny_config(d=params.d, layers=sum(params.split), d_ff=d_ff), seed=seed)
    plan = Plan(params.pretrain_steps, 2e-3, seed=seed)
    train(OnText(base.requires_grad_(True), *sizes, seed), plan, on_step=on_step)
    base.requires_grad_(False)
    return base


MEASURES = ("shuffled", "removed", "perplexity", "dead", "per_concept", "tail95")


def _codes(charts: Charts, judged_of: dict[str, list[Judgement]]) -> None:
    shares = {name: judged_of[name][-1].shares for name in WITH_CONCEPTS}
    codes = len(shares["faithful"])
    for measure in MEASURES:
        table = {
            (name, "held out"): [getattr(judged, measure) for judged in judged_of[name]]
            for name in WITH_CONCEPTS
        }
        charts.seeds(measure, table, most=codes if measure == "perplexity" else None)
    usage = charts.open("usage", WITH_CONCEPTS)
    for rank in sorted({round(1.3**i) for i in range(40)}):
        if rank <= codes:
            usage.add_exact(float(rank), {name: share[rank - 1] for name, share in shares.items()})


@torch.no_grad()
def heat_map(learner: OnText, length: int) -> str:
    """Held-out text as SVG: shaded by inclination, bold with its code where a concept stands.

    Under the text each code that occurs is named by the bytes nearest to it.
    """
    x = learner.corpus.judged(4, min(length, 96))
    output = learner.run(x)
    head = learner.model.head
    shade = (head.control.threshold - head.margin(output.routing.logits)).sigmoid()
    width, height = 8, 28
    cells: list[str] = []
    named: dict[int, tuple[int, ...]] = {}
    for r, row in enumerate(x):
        concepts = {mark.place: mark for mark in marks(learner.model, row)}
        named |= {mark.code: mark.nearest for mark in concepts.values()}
        for c, byte in enumerate(row.tolist()):
            left, top = c * width, r * height
            colour = f'fill="#e69f00" fill-opacity="{float(shade[r, c]):.2f}"'
            cells.append(f'<rect x="{left}" y="{top}" width="{width}" height="18" {colour}/>')
            bold = ' font-weight="bold"' if c in concepts else ""
            cells.append(f'<text x="{left + 1}" y="{top + 13}"{bold}>{_letter(byte)}</text>')
            if c in concepts:
                at = f'x="{left + 1}" y="{top + 24}"'
                cells.append(f'<text {at} font-size="5">{concepts[c].code}</text>')
    for i, (code, nearest) in enumerate(sorted(named.items())):
        at = f'x="{i % 8 * 12 * width}" y="{len(x) * height + 14 + i // 8 * 14}"'
        near = " ".join(map(_letter, nearest))
        cells.append(f'<text {at} font-size="10">{code}: {near}</text>')
    tall = len(x) * height + 20 + (len(named) + 7) // 8 * 14
    title = "Concepts in a text: shaded by inclination, bold with its code where one stands"
    font = 'font-family="monospace" font-size="12"'
    return drawing(title, x.shape[1] * width, tall, font, cells)


def _letter(byte: int) -> str:
    letter = chr(byte)
    letter = letter if letter.isascii() and letter.isprintable() else "·"
    return escape(letter).replace(" ", "\u00a0")


CONCEPTS: dict[str, dict[str, Any]] = {  # what each changes in v2 as the notes have it
    "notes": {},
    "hnet": {"boundary": "hnet"},
    "ours": {"boundary": "words", "codes": "fsq", "residual": True},
}


def make(name: str, params: ScratchParams, corpus: Corpus, seed: int) -> OnText:
    """An untrained model: `dense_N` of N layers, or one of `CONCEPTS`."""
    layers = sum(params.split) if name in CONCEPTS else int(name.removeprefix("dense_"))
    base = load_base(tiny_config(d=params.d, layers=layers, d_ff=2 * params.d), seed=seed)
    model: Any = base
    if name in CONCEPTS:
        values = {"rho": params.rho, "n_concepts": params.n_concepts} | CONCEPTS[name]
        model = ConceptLM(base, ConceptConfig(*params.split, **values), seed=seed)
        model.fold()  # adapters are for a base that is frozen
    model.requires_grad_(True)
    return OnText(model, corpus, params.rows, params.length, seed)


def scratch(ctx: Context, params: ScratchParams) -> None:
    """Train every model on the same bytes, judge each on held-out text."""
    torch.set_num_threads(1)
    ctx.check_all("dropped_layers", checks.dropped_layers(ctx.device))
    corpus = folder(params.data) if params.data else stdlib()
    ctx.log(f"text {corpus.digest}: {len(corpus.train)} bytes to train on")
    charts = Charts(ctx, __file__)
    variants = [Variant(name=f"dense_{n}", label=f"{n} dense layers") for n in params.dense]
    variants += charts.variants("scratch")
    judged_of: dict[str, list[Judgement]] = {variant.name: [] for variant in variants}
    stages = Stages(ctx, params.seeds * params.steps * len(judged_of))
    for seed in range(ctx.seed, ctx.seed + params.seeds):
        for name, judged in judged_of.items():
            learner = make(name, params, corpus, seed)
            plan = Plan(params.steps, params.lr, seed=seed)
            train(learner, plan, on_step=stages.begin(params.steps, f"{name}, seed {seed}"))
            judged.append(judge(learner, params.judged))
    baseline = f"dense_{params.dense[-1]}"
    charts.seeds("scratch", front(judged_of), variants=variants, baseline=baseline)
    bits = {
        (name, given): [judged.controls[given] for judged in judged_of[name]]
        for name in CONCEPTS
        for given in judged_of[name][0].controls
    }
    charts.seeds("controls", bits)

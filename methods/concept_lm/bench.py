"""Decoding, compression, planning and lost concepts, measured."""

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from html import escape
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from ..context import Context, OpenSeries
from ..errors import InputError
from ..kit.compare import difference, relative
from ..kit.corpus import Corpus, stdlib
from ..kit.images import drawing
from ..kit.report import Charts, Stages
from ..kit.seeds import generator
from ..kit.training import Plan
from ..measure.timing import Comparison, time_all
from ..protocol import Limit, Variant
from ..spec import Case
from . import checks
from .base import load_base, tiny_config
from .baselines import NAMES, WITH_CONCEPTS, Judgement, candidate, equal_split, front, judge
from .boundaries import Fixed
from .cache import SlotCache
from .config import ConceptConfig, recommended
from .decode import prefill, walk
from .flops import QWEN3_SMALL, speedup_bound
from .marks import marks
from .model import ConceptLM
from .practice import load, size, tokenised
from .reference import sequential_logits
from .spec import CompressionParams, DecodeParams, PlannerParams
from .synthetic import PlanTask
from .train import OnText, train
from .v3.em import Curriculum, EMSettings, HardEM, models
from .v3.executor import Executor
from .v3.monitors import Trace, diagnose
from .v3.planner import Planner, PlanShape
from .v3.role import adapters

BURST = 16  # tokens a call; a whole number of segments for every 1 / rho up to 16


class Plain:
    """The base with the same cache buffers as v2, after it has read a prompt (B, T).

    Only what v2 changes differs. `lengths` is where the bursts of each row begin.
    """

    def __init__(
        self, model: ConceptLM, prompt: Tensor, lengths: Tensor | None = None, tokens: int = BURST
    ) -> None:
        self.model, self.token, self.tokens = model, prompt[:, 0], tokens
        rows, n = prompt.shape
        self.cache = SlotCache(rows, n + tokens)
        self.read(prompt)
        self.lengths = self.cache.lengths.clone() if lengths is None else lengths

    @torch.no_grad()
    def read(self, x: Tensor) -> Tensor:
        """The next tokens of each row: (B, n) -> logits of what follows, (B, V)."""
        qwen = self.model.qwen
        h = self.model.run_layers(qwen.layers, qwen.embed_tokens(x), cache=self.cache)
        self.cache.advance(x.shape[1])
        return self.model.read_out(h[:, -1:])[:, 0]

    def burst(self) -> None:
        """Go back to where bursts begin, and decode so many tokens of every row."""
        self.cache.lengths = self.lengths.clone()
        for _ in range(self.tokens):
            self.read(self.token[:, None])


class Ours:
    """v2 under a rule, after it has read a prompt (B, T): bursts of tokens begin there.

    Entries that are overwritten meanwhile keep their shape: time does not depend on their values.
    """

    def __init__(
        self,
        model: ConceptLM,
        rule: Fixed,
        prompt: Tensor,
        lengths: Tensor | None = None,
        tokens: int = BURST,
    ) -> None:
        self.model, self.rule, self.token, self.tokens = model, rule, prompt[:, 0], tokens
        model.boundary = rule
        self.state = prefill(model, prompt, lengths, room=tokens)[1]
        self.lengths = [cache.lengths.clone() for cache in self.state.caches]

    @torch.no_grad()
    def burst(self, patience: int = 0) -> None:
        """Go back to where bursts begin, and decode so many tokens of every row."""
        self.model.boundary = self.rule
        for cache, length in zip(self.state.caches, self.lengths, strict=True):
            cache.lengths = length.clone()
        state = copy.copy(self.state)  # a step replaces all that is no cache
        for _ in walk(self.model, state, self.token[:, None], self.tokens, patience):
            pass


def build(params: DecodeParams, device: str) -> ConceptLM:
    """A folded model whose boundary is set before each measurement."""
    source = params.model or tiny_config(
        d=params.d,
        layers=sum(params.split),
        heads=max(2, params.d // 64),
        kv_heads=max(1, params.d // 128),
        d_ff=3 * params.d,
        vocab=params.vocab,
        max_positions=max(params.contexts) + params.row_tokens,
    )
    config = ConceptConfig(*params.split, n_concepts=params.n_concepts, boundary="fixed")
    with torch.device(device):  # random weights of hundreds of millions take long on a CPU
        base = load_base(source, dtype=getattr(torch, params.dtype))
    model = ConceptLM(base, config).to(device).eval()
    model.fold()
    if max(params.contexts) + params.row_tokens > model.base_config.max_position_embeddings:
        raise InputError(
            f"contexts of {max(params.contexts)} do not fit the base's "
            f"{model.base_config.max_position_embeddings} positions"
        )
    return model


def planning(params: DecodeParams, model: ConceptLM) -> tuple[Planner, Executor]:
    """v3 on the same weights, a LoRA a role, in transformers' layers; plans of `train`'s size."""
    base, words = copy.deepcopy(model.causal_lm), model.base_config.vocab_size
    shape = PlanShape(2, params.n_concepts, 4, words, words, model.base_config.hidden_size)
    planner, executor, _ = models(shape, 0, adapters(base))
    nn.ModuleList([planner, executor]).to(base.device, base.dtype).eval()
    return planner, executor


def decode(ctx: Context, params: DecodeParams) -> None:
    """Tokens a second, prefill, cache bytes and the packed pass, over context and 1 / rho."""
    model, charts = build(params, ctx.device), Charts(ctx, __file__)
    rules = {n: Fixed(1 / n).to(ctx.device) for n in params.tokens_per_concept}
    at_lengths = _comparisons(charts, params, model, rules)
    apart = _rows_apart(charts, params, model, rules) if params.rows else ()
    time_all(ctx, chain(at_lengths, apart), params, baseline="plain")
    _bounds(charts, model, rules)
    if params.oracle:
        _packed_against_loop(charts, params)


def _ours(rules: Iterable[int]) -> list[Variant]:
    return [
        Variant(name=f"tokens_{n}", label=f"v2, a concept every {n} tokens", ours=True)
        for n in rules
    ]


BOUNDS_AT = 2048  # tokens of context


def _bounds(charts: Charts, model: ConceptLM, rules: Iterable[int]) -> None:
    """Speed-ups that counted operations allow, for the timed shape and for shapes of real use."""
    base, config = model.base_config, model.config
    real, wide = replace(config, n_concepts=4096), copy.copy(base)
    wide.vocab_size = QWEN3_SMALL.vocab_size
    shapes = {
        "as timed": (base, config),
        "4,096 concepts, Qwen's vocabulary": (wide, real),
        "Qwen3-0.6B, split 4/20/4": (QWEN3_SMALL, replace(real, shallow=4, middle=20, deep=4)),
    }
    series = charts.open("bounds", variants=_ours(rules), context=BOUNDS_AT)
    for name, (shape, split) in shapes.items():
        bounds = {n: speedup_bound(shape, split, BOUNDS_AT, 1 / n) for n in rules}
        series.add_exact(name, {f"tokens_{n}": bound for n, bound in bounds.items()})


CHECKED_UP_TO = 8192  # tokens: one pass in float64 over more does not fit


@torch.no_grad()
def at_shape(
    model: ConceptLM, rules: dict[int, Fixed], prompt: Tensor, lengths: Tensor | None = None
) -> Iterator[Case]:
    """Reading prompts and decoding from them, against one pass over each row in float64.

    In float32, whatever the weights' type: in bfloat16 another concept may win. Nothing here is
    timed with gradients; the check `gradients` compares those.
    """
    rows, T = prompt.shape
    more = torch.randint(model.base_config.vocab_size, (rows, BURST), generator=generator(T))
    more = more.to(prompt.device)
    ours, exact = copy.deepcopy(model).float(), copy.deepcopy(model).double()
    waits = (0,) if lengths is None else (0, max(rules) - 1)
    if lengths is None:
        base, expected = Plain(ours, prompt), exact.causal_lm(torch.cat([prompt, more], 1)).logits
        steps = torch.stack([base.read(token[:, None]) for token in more.T], 1)
        yield Case(relative(steps, expected[:, T:]), 1e-4, label=f"the base, {T} tokens")
        lengths = torch.full((rows,), T)
    every = zip(prompt, lengths.tolist(), more, strict=True)
    alone = [(n, torch.cat([row[:n], behind])[None]) for row, n, behind in every]
    for n, rule in rules.items():
        ours.boundary, exact.boundary = rule, copy.deepcopy(rule).double()
        expected = torch.stack([exact(x).logits[0, length - 1 :] for length, x in alone])
        for wait in waits:
            label = f"a concept every {n}, {T} tokens" + f", waiting {wait}" * bool(wait)
            logits = checks.decoded(ours, prompt, more, lengths, wait)
            yield Case(relative(logits, expected), 1e-4, label=label)


def _comparisons(
    charts: Charts, params: DecodeParams, model: ConceptLM, rules: dict[int, Fixed]
) -> Iterator[Comparison]:
    """Decoding and prefill at every context; the size of the caches is recorded on the way."""
    ctx, shape = charts.ctx, model.base_config
    limits = []
    for n in rules:
        bounds = ((float(T), speedup_bound(shape, model.config, T, 1 / n)) for T in params.contexts)
        limits.append(Limit(label=f"operations allow, every {n}", points=tuple(bounds), of="ratio"))
    plain, theirs, planned = charts.variants("decode")
    ours = [*_ours(rules), *([planned] if params.v3 else [])]
    v3 = planning(params, model) if params.v3 else None
    batch = f"{params.batch} {'row' if params.batch == 1 else 'rows'}"
    speed = charts.open("speed", variants=[plain, theirs, *ours], limits=limits, batch=batch)
    kept = charts.open("kv_bytes", variants=[plain, *ours])
    reading = charts.open("prefill", variants=[plain, *ours])
    for T in params.contexts:
        size = (params.batch, T)
        prompt = torch.randint(shape.vocab_size, size).to(ctx.device)
        bursts = partial(_bursts, ctx, model, rules, prompt, kept=kept, v3=v3)
        yield Comparison(speed, T, bursts, work=BURST * params.batch)
        if params.longest_prompt >= T:
            v2 = {f"tokens_{n}": partial(Ours, model, r, prompt) for n, r in rules.items()}
            plan = {"v3": partial(v3[0].sample, prompt, 0.0)} if v3 else {}
            base = partial(Plain, model, prompt)
            yield Comparison(reading, T, partial(dict, plain=base, **plan, **v2))


@torch.no_grad()
def _bursts(
    ctx: Context,
    model: ConceptLM,
    rules: dict[int, Fixed],
    prompt: Tensor,
    *,
    kept: OpenSeries,
    v3: tuple[Planner, Executor] | None,
) -> dict[str, Callable[[], object]]:
    """Calls that decode `BURST` tokens from a prompt and rewind; records the bytes each caches.

    v3 starts each call from a plan and caches that; what its planner read is freed.
    """
    ctx.check_all("at_shape", at_shape(model, rules, prompt[:, :CHECKED_UP_TO]))
    token = prompt[:, :1]
    cache = DynamicCache(config=model.base_config)
    model.causal_lm(input_ids=prompt, past_key_values=cache, use_cache=True, logits_to_keep=1)

    @torch.no_grad()
    def transformers_burst() -> None:
        for _ in range(BURST):
            model.causal_lm(input_ids=token, past_key_values=cache, use_cache=True)
        cache.crop(-BURST)

    plain = Plain(model, prompt)
    ours = {f"tokens_{n}": Ours(model, rule, prompt) for n, rule in rules.items()}
    sizes = {name: call.state.kv_bytes() for name, call in ours.items()}
    bursts: dict[str, Callable[[], object]] = {name: call.burst for name, call in ours.items()}
    if v3 is not None:
        planner, executor = v3
        z = planner.sample(prompt, 0.0)
        entries = executor.prefix(*executor.read(z))[0].shape[1]
        sizes["v3"] = plain.cache.bytes() * entries // prompt.shape[1]
        bursts["v3"] = partial(executor.write, z, BURST, 0.0)
    kept.add_exact(prompt.shape[1], {"plain": plain.cache.bytes(), **sizes})
    return {"plain": plain.burst, "transformers": transformers_burst, **bursts}


def _rows_apart(
    charts: Charts, params: DecodeParams, model: ConceptLM, rules: dict[int, Fixed]
) -> Iterator[Comparison]:
    """Several rows whose concepts come at the same step, and one token apart."""
    T, n = params.contexts[0], list(rules)[len(rules) // 2]
    series = charts.open("rows", rows=params.rows, context=T, every=n, patience=n - 1)
    size = (params.rows, T)
    prompt = torch.randint(model.base_config.vocab_size, size).to(charts.ctx.device)

    def calls(apart: int) -> dict[str, Callable[[], object]]:
        lengths = T - apart * torch.arange(params.rows).clamp_max(T - 1)
        charts.ctx.check_all("at_shape", at_shape(model, {n: rules[n]}, prompt, lengths))
        plain = Plain(model, prompt, lengths, params.row_tokens)
        ours = Ours(model, rules[n], prompt, lengths, params.row_tokens)
        waiting = partial(ours.burst, patience=n - 1)
        return {"plain": plain.burst, "ours": ours.burst, "waiting": waiting}

    for name, apart in (("in step", 0), ("one token apart", 1)):
        yield Comparison(series, name, partial(calls, apart), work=params.row_tokens * params.rows)


@torch.no_grad()
def _packed_against_loop(charts: Charts, params: DecodeParams) -> None:
    """The packed pass against the notes' loop, forward, on the tiny model of the checks."""
    ctx = charts.ctx
    model = checks.example(ctx.device, exact=False)
    x = checks.tokens(ctx.device, rows=1, n=params.oracle)
    model.settle([x])

    packed, loop = partial(model, x), partial(sequential_logits, model, x)
    ctx.check("oracle", difference(packed().logits, loop()), 1e-5, label="the two that are timed")
    series = charts.open("packed_pass")
    once = Comparison(series, params.oracle, partial(dict, loop=loop, packed=packed))
    time_all(ctx, [once], params, baseline="loop")


OnTraining = Callable[..., None]  # called with the steps done
WATCHED = ("random", "faithful", "recommended")  # whose diagnosis is logged


def configuration_of(name: str, params: CompressionParams) -> ConceptConfig:
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
            config = configuration_of(name, params)  # not the batches of pretraining
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
                place = f'x="{left + 1}" y="{top + 24}"'
                cells.append(f'<text {place} font-size="5">{concepts[c].code}</text>')
    for i, (code, nearest) in enumerate(sorted(named.items())):
        place = f'x="{i % 8 * 12 * width}" y="{len(x) * height + 14 + i // 8 * 14}"'
        near = " ".join(map(_letter, nearest))
        cells.append(f'<text {place} font-size="10">{code}: {near}</text>')
    tall = len(x) * height + 20 + (len(named) + 7) // 8 * 14
    title = "Concepts in a text: shaded by inclination, bold with its code where one stands"
    font = 'font-family="monospace" font-size="12"'
    return drawing(title, x.shape[1] * width, tall, font, cells)


def _letter(byte: int) -> str:
    letter = chr(byte)
    letter = letter if letter.isascii() and letter.isprintable() else "·"
    return escape(letter).replace(" ", "\u00a0")


Priced = dict[str, dict[str, float]]  # by series, what plans of a kind cost or use


def task_of(params: PlannerParams) -> PlanTask:
    """The benchmark's task."""
    return PlanTask(**params.model_dump(include={"types", "bits", "slots"}))


def make_em(params: PlannerParams, seed: int, naive: bool = False) -> HardEM:
    """Planner, executor and recogniser for the benchmark's task."""
    task = task_of(params)
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
            em = make_em(params, seed, naive=name == "naive")
            on_step = stages.begin(em.curriculum.total, f"{name}, seed {seed}")
            begun = time.process_time()
            trace = em.train(on_step, watch=params.watch)
            if name == "ours":
                seconds.append(time.process_time() - begun)
            prices.append(priced(em, ctx.seed))
            traces.setdefault(name, trace)
            for action in diagnose(list(trace.values())[-1]):
                ctx.log(f"{name}, seed {seed}: {action.symptom}. Try: {action.action}.")
    _report(charts, runs, task_of(params))
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
        declared_words = charts.words(declared)
        limits = [
            Limit(label=label, points=((0.0, declared_words[end]), (last, declared_words[end])))
            for label, end in (("normal from", "low"), ("normal to", "high"))
            if end in declared_words
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
    """Report the information in the plans and the number of codes they use."""
    (conditional, marginal), codes = task.floors, float(task.codes)
    limits = {
        "nll": {"H(y | z), computed": conditional, "H(y), computed": marginal},
        "gain": {"I(u; y), computed": marginal - conditional},
        "codes": {"all": codes},
        "price": {"H(y | u), computed": conditional},
    }
    for name, lines in limits.items():
        table = {
            (variant, key): [prices[name][key] for prices in seeds]
            for variant, seeds in runs.items()
            for key in seeds[0][name]
        }
        charts.seeds(name, table, limits=lines, most=codes if name == "codes" else None)


def priced(em: HardEM, seed: int) -> Priced:
    """Cost of plans for the held-out texts, in nats, and the number of codes used, by series.

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
        em = make_em(params, seed)
        em.train(stages.begin(em.curriculum.total, f"seed {seed}"), params.watch)
        whole = em.best_plans()
        e, used = em.executor.read(whole)
        for share in shares:
            lost = (torch.rand(whole.shape, generator=generator(ctx.seed)) < share).to(used.device)
            nll = em.executor.token_nll(e, used & ~lost[:, :, :-1], em.held_y)
            table["ours", share].append(float(nll.detach().sum(1).mean()))
    conditional, marginal = task_of(params).floors

    def floor(share: float) -> float:
        return conditional + share * (marginal - conditional)

    limits = {"computed: H(y | the codes that are left)": floor}
    Charts(ctx, __file__).seeds("dropout", table, limits=limits)

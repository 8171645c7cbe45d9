"""Decoding measured: v2 against the base it is made of, in interleaved blocks."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from ..context import Context, OpenSeries
from ..errors import InputError
from ..kit.compare import difference, relative
from ..kit.report import Charts
from ..kit.seeds import generator
from ..measure.timing import Comparison, time_all
from ..protocol import Limit, Variant
from ..spec import Case
from . import checks
from .base import load_base, tiny_config
from .boundaries import Fixed
from .cache import SlotCache
from .config import ConceptConfig
from .decode import prefill, walk
from .flops import QWEN3_SMALL, speedup_bound
from .model import ConceptLM
from .reference import sequential_logits
from .spec import DecodeParams
from .v3.em import models
from .v3.executor import Executor
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
    """What counted operations allow: for what is timed, and for shapes of real use."""
    base, config = model.base_config, model.config
    real, wide = replace(config, n_concepts=4096), copy.copy(base)
    wide.vocab_size = QWEN3_SMALL.vocab_size
    shapes = {
        "as timed": (base, config),
        "4,096 concepts, Qwen's vocabulary": (wide, real),
        "Qwen3-0.6B, split 4/20/4": (QWEN3_SMALL, replace(real, shallow=4, middle=20, deep=4)),
    }
    series = charts.open("bounds", variants=_ours(rules), context=BOUNDS_AT)
    for name, (size, split) in shapes.items():
        bounds = {n: speedup_bound(size, split, BOUNDS_AT, 1 / n) for n in rules}
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
        base, wanted = Plain(ours, prompt), exact.causal_lm(torch.cat([prompt, more], 1)).logits
        steps = torch.stack([base.read(token[:, None]) for token in more.T], 1)
        yield Case(relative(steps, wanted[:, T:]), 1e-4, label=f"the base, {T} tokens")
        lengths = torch.full((rows,), T)
    every = zip(prompt, lengths.tolist(), more, strict=True)
    alone = [(n, torch.cat([row[:n], behind])[None]) for row, n, behind in every]
    for n, rule in rules.items():
        ours.boundary, exact.boundary = rule, copy.deepcopy(rule).double()
        wanted = torch.stack([exact(x).logits[0, at - 1 :] for at, x in alone])
        for wait in waits:
            label = f"a concept every {n}, {T} tokens" + f", waiting {wait}" * bool(wait)
            logits = checks.decoded(ours, prompt, more, lengths, wait)
            yield Case(relative(logits, wanted), 1e-4, label=label)


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
    ours = [*_ours(rules), planned]
    v3 = planning(params, model)
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
            base, plan = partial(Plain, model, prompt), partial(v3[0].sample, prompt, 0.0)
            yield Comparison(reading, T, partial(dict, plain=base, v3=plan, **v2))


@torch.no_grad()
def _bursts(
    ctx: Context,
    model: ConceptLM,
    rules: dict[int, Fixed],
    prompt: Tensor,
    *,
    kept: OpenSeries,
    v3: tuple[Planner, Executor],
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
    planner, executor = v3
    z = planner.sample(prompt, 0.0)
    entries = executor.prefix(*executor.read(z))[0].shape[1]
    sizes["v3"] = plain.cache.bytes() * entries // prompt.shape[1]
    kept.add_exact(prompt.shape[1], {"plain": plain.cache.bytes(), **sizes})
    bursts: dict[str, Callable[[], object]] = {name: call.burst for name, call in ours.items()}
    bursts["v3"] = partial(executor.write, z, BURST, 0.0)
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

"""Decoding measured: v2 against the base it is made of, in interleaved blocks."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from methods.concept_lm import checks
from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.cache import SlotCache
from methods.concept_lm.config import ConceptConfig, ConceptError
from methods.concept_lm.decode import prefill, step, step_ready
from methods.concept_lm.flops import QWEN3_SMALL, Shape, speedup_bound
from methods.concept_lm.model import ConceptLM
from methods.concept_lm.reference import sequential_logits
from methods.concept_lm.rules import Fixed
from methods.concept_lm.spec import DecodeParams
from methods.context import Context, OpenSeries
from methods.kit.compare import difference, relative
from methods.kit.seeds import generator
from methods.measure.timing import Comparison, time_all
from methods.protocol import Axis, Limit, Variant
from methods.spec import Case

BURST = 16  # tokens a call; a whole number of segments for every 1 / rho up to 16
LONG_BURST = 64  # where rows begin out of step: getting into step is a small part of it


@dataclass
class Plain:
    """The base with the same cache buffers as v2: only what v2 changes differs."""

    model: ConceptLM
    rows: int

    @torch.no_grad()
    def prefill(self, x: Tensor) -> SlotCache:
        """Read a prompt and predict the next token."""
        n = x.shape[1]
        cache = SlotCache(self.rows, n + BURST)
        self._run(x, torch.arange(n, device=x.device)[None], cache)
        return cache

    @torch.no_grad()
    def step(self, token: Tensor, cache: SlotCache) -> Tensor:
        """One token of each row."""
        return self._run(token[:, None], cache.lengths[:, None].to(token.device), cache)

    def _run(self, x: Tensor, positions: Tensor, cache: SlotCache) -> Tensor:
        qwen = self.model.qwen
        cache.open(x.shape[1])
        h = self.model.run_layers(qwen.layers, qwen.embed_tokens(x), positions, cache=cache)
        cache.advance(x.shape[1])
        return self.model.read_out(h[:, -1:])


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
        self.state = state = prefill(model, prompt, lengths, room=tokens)[1]
        self.caches = state.shallow, state.middle, state.deep, state.probe
        self.lengths = [cache.lengths.clone() for cache in self.caches]
        self.kept = {name: t.clone() for name, t in vars(state).items() if isinstance(t, Tensor)}

    @torch.no_grad()
    def burst(self, patience: int = 0) -> None:
        """Decode so many tokens of every row, and go back."""
        self.model.boundary = self.rule
        done = torch.zeros(len(self.token), dtype=torch.long)
        while bool((done < self.tokens).any()):
            active = done < self.tokens
            done += step_ready(self.model, self.token, self.state, patience, active)[1]
        for cache, length in zip(self.caches, self.lengths, strict=True):
            cache.lengths = length.clone()
        for name, value in self.kept.items():
            setattr(self.state, name, value.clone())


def build(params: DecodeParams, device: str) -> ConceptLM:
    """A folded model whose boundary is set before each measurement."""
    if params.model:
        source: Any = params.model
    else:
        source = tiny_config(
            d=params.d,
            layers=params.shallow + params.middle + params.deep,
            heads=max(2, params.d // 64),
            kv_heads=max(1, params.d // 128),
            d_ff=3 * params.d,
            vocab=params.vocab,
            max_positions=max(params.contexts) + LONG_BURST,
        )
    base = load_base(source, dtype=getattr(torch, params.dtype))
    split = (params.shallow, params.middle, params.deep)
    config = ConceptConfig(*split, n_concepts=params.n_concepts, boundary="fixed")
    model = ConceptLM(base, config).to(device).eval()
    model.fold()
    if max(params.contexts) + LONG_BURST > model.base_config.max_position_embeddings:
        raise ConceptError(
            f"contexts of {max(params.contexts)} do not fit the base's "
            f"{model.base_config.max_position_embeddings} positions"
        )
    return model


def decode(ctx: Context, params: DecodeParams) -> None:
    """Tokens a second, prefill, cache bytes and the packed pass, over context and 1 / rho."""
    model = build(params, ctx.device)
    rules = {n: Fixed(1 / n).to(ctx.device) for n in params.tokens_per_concept}
    shape = Shape.of(model.base_config)
    plain = Variant(name="plain", label="the base, same cache buffers")
    theirs = Variant(name="transformers", label="the base in transformers, DynamicCache")
    ours = [
        Variant(name=f"tokens_{n}", label=f"v2, a concept every {n} tokens", ours=True)
        for n in rules
    ]
    limits = [
        Limit(
            label=f"operations allow, every {n}",
            points=tuple(
                (float(T), speedup_bound(shape, model.config, T, 1 / n)) for T in params.contexts
            ),
            of="ratio",
        )
        for n in rules
    ]
    context = Axis(label="context", unit="tokens", scale="log")
    speed = ctx.series(
        "speed",
        f"Decoding, {params.batch} {'row' if params.batch == 1 else 'rows'}",
        x=context,
        y=Axis(label="decoded", unit="tokens/s"),
        direction="higher",
        variants=[plain, theirs, *ours],
        baseline="plain",
        limits=limits,
    )
    less = partial(ctx.series, direction="lower", variants=[plain, *ours], baseline="plain")
    size = Axis(label="size", unit="bytes", scale="log")
    kept = less("kv_bytes", "Keys and values kept", x=context, y=size)
    prompt = Axis(label="prompt", unit="tokens", scale="log")
    reading = less("prefill", "Reading the prompt", x=prompt, y=Axis(label="time", unit="ms"))
    at_lengths = _comparisons(ctx, params, model, rules, speed=speed, kept=kept, reading=reading)
    apart = _rows_apart(ctx, params, model, rules) if params.rows else ()
    time_all(ctx, chain(at_lengths, apart), params, baseline="plain")
    _bounds(ctx, model, params.tokens_per_concept, ours)
    if params.oracle:
        _packed_against_loop(ctx, params)


BOUNDS_AT = 2048  # tokens of context


def _bounds(
    ctx: Context, model: ConceptLM, every: tuple[int, ...], variants: list[Variant]
) -> None:
    """What counted operations allow: for what is timed, and for shapes of real use."""
    shape, config = Shape.of(model.base_config), model.config
    real = replace(config, n_concepts=4096)
    shapes = {
        "as timed": (shape, config),
        "4,096 concepts, Qwen's vocabulary": (replace(shape, vocab=QWEN3_SMALL.vocab), real),
        "Qwen3-0.6B, split 4/20/4": (QWEN3_SMALL, replace(real, shallow=4, middle=20, deep=4)),
    }
    series = ctx.series(
        "bounds",
        f"What counted operations allow at {BOUNDS_AT:,} tokens",
        x=Axis(label="shape", scale="category"),
        y=Axis(label="the base's operations over v2's", unit="times"),
        direction="higher",
        variants=variants,
    )
    for name, (size, split) in shapes.items():
        found = {n: speedup_bound(size, split, BOUNDS_AT, 1 / n) for n in every}
        series.add_exact(name, {f"tokens_{n}": bound for n, bound in found.items()})
        told = ", ".join(f"{bound:.2f} with a concept every {n}" for n, bound in found.items())
        ctx.log(f"operations allow at {BOUNDS_AT} tokens, {name}: {told}")


CHECKED_UP_TO = 8192  # tokens: one pass in float64 over more does not fit


@torch.no_grad()
def at_shape(model: ConceptLM, rules: dict[int, Fixed], prompt: Tensor) -> Iterator[Case]:
    """Reading this prompt and decoding from it, against one pass over all in float64.

    In float32, whatever the weights' type: in bfloat16 another concept may win. Nothing here is
    timed with gradients; the check `gradients` compares those.
    """
    rows, T = prompt.shape
    more = torch.randint(model.base_config.vocab_size, (rows, BURST), generator=generator(T))
    x = torch.cat([prompt, more.to(prompt.device)], 1)  # (B, T + BURST)
    ours, exact = copy.deepcopy(model).float(), copy.deepcopy(model).double()
    base = Plain(ours, rows)
    cache = base.prefill(prompt)
    steps = [base.step(x[:, at], cache)[:, 0] for at in range(T, T + BURST)]
    wanted = exact.causal_lm(input_ids=x).logits[:, T:]
    yield Case(relative(torch.stack(steps, 1), wanted), 1e-4, label=f"the base, {T} tokens")
    for n, rule in rules.items():
        ours.boundary, exact.boundary = rule, copy.deepcopy(rule).double()
        first, state = prefill(ours, prompt, room=BURST)
        found = [first, *(step(ours, x[:, at], state) for at in range(T, T + BURST))]
        wanted = exact(x).logits[:, T - 1 :]  # (B, 1 + BURST, V)
        label = f"a concept every {n}, {T} tokens"
        yield Case(relative(torch.stack(found, 1), wanted), 1e-4, label=label)


def _comparisons(
    ctx: Context,
    params: DecodeParams,
    model: ConceptLM,
    rules: dict[int, Fixed],
    *,
    speed: OpenSeries,
    kept: OpenSeries,
    reading: OpenSeries,
) -> Iterator[Comparison]:
    for T in params.contexts:
        size = (params.batch, T)
        prompt = torch.randint(model.base_config.vocab_size, size).to(ctx.device)

        def bursts(T: int = T, prompt: Tensor = prompt) -> dict[str, Callable[[], object]]:
            read = prompt[:, :CHECKED_UP_TO]
            ctx.check_all("at_shape", at_shape(model, rules, read))
            calls, sizes = _decoders(model, rules, prompt)
            kept.add_exact(T, sizes)
            return calls

        def prefills(prompt: Tensor = prompt) -> dict[str, Callable[[], object]]:
            plain = partial(Plain(model, params.batch).prefill, prompt)
            ours = {f"tokens_{n}": partial(Ours, model, r, prompt) for n, r in rules.items()}
            return {"plain": plain, **ours}

        yield Comparison(speed, T, bursts, work=BURST * params.batch)
        if params.longest_prompt >= T:
            yield Comparison(reading, T, prefills)


@torch.no_grad()
def _decoders(
    model: ConceptLM, rules: dict[int, Fixed], prompt: Tensor
) -> tuple[dict[str, Callable[[], object]], dict[str, int]]:
    """Calls that decode `BURST` tokens from a prompt and go back, and the bytes each keeps."""
    token = prompt[:, 0]
    plain = Plain(model, len(prompt))
    cache = plain.prefill(prompt)
    theirs = DynamicCache(config=model.base_config)
    model.causal_lm(input_ids=prompt, past_key_values=theirs, use_cache=True, logits_to_keep=1)

    @torch.no_grad()
    def plain_burst() -> None:
        for _ in range(BURST):
            plain.step(token, cache)
        cache.lengths -= BURST

    @torch.no_grad()
    def transformers_burst() -> None:
        for _ in range(BURST):
            model.causal_lm(input_ids=token[:, None], past_key_values=theirs, use_cache=True)
        theirs.crop(-BURST)

    calls: dict[str, Callable[[], object]] = {
        "plain": plain_burst,
        "transformers": transformers_burst,
    }
    sizes = {"plain": cache.bytes()}
    for n, rule in rules.items():
        ours = Ours(model, rule, prompt)
        sizes[f"tokens_{n}"] = ours.state.kv_bytes()
        calls[f"tokens_{n}"] = ours.burst
    return calls, sizes


def _rows_apart(
    ctx: Context, params: DecodeParams, model: ConceptLM, rules: dict[int, Fixed]
) -> Iterator[Comparison]:
    """Several rows whose concepts come at the same step, and one token apart."""
    T, n = params.contexts[0], list(rules)[len(rules) // 2]
    series = ctx.series(
        "rows",
        f"{params.rows} rows in and out of step, {T} tokens, a concept every {n}",
        x=Axis(label="rows", scale="category"),
        y=Axis(label="decoded", unit="tokens/s"),
        direction="higher",
        variants=[
            Variant(name="plain", label="the base, same cache buffers"),
            Variant(name="ours", label="v2, no row waits", ours=True),
            Variant(name="waiting", label=f"v2, rows wait up to {n - 1} steps", ours=True),
        ],
        baseline="plain",
        caption="A row that met a concept waits for others, so that they share a middle pass: what "
        "each row computes stays the same. Waiting is part of the time.",
    )
    prompt = torch.randint(model.base_config.vocab_size, (params.rows, T)).to(ctx.device)
    token = prompt[:, 0]
    for name, apart in (("in step", 0), ("one token apart", 1)):
        lengths = T - apart * torch.arange(params.rows).clamp_max(T - 1)

        def calls(lengths: Tensor = lengths) -> dict[str, Callable[[], object]]:
            plain = Plain(model, params.rows)
            cache = plain.prefill(prompt)

            def plain_burst() -> None:
                cache.lengths = lengths.clone()
                for _ in range(LONG_BURST):
                    plain.step(token, cache)

            ours = Ours(model, rules[n], prompt, lengths, LONG_BURST)
            waiting = partial(ours.burst, patience=n - 1)
            return {"plain": plain_burst, "ours": ours.burst, "waiting": waiting}

        yield Comparison(series, name, calls, work=LONG_BURST * params.rows)


def _packed_against_loop(ctx: Context, params: DecodeParams) -> None:
    """The packed pass against the notes' loop, forward, on the tiny model of the checks."""
    model = checks.example(ctx.device, exact=False)
    x = checks.tokens(ctx.device, rows=1, n=params.oracle)
    checks.calibrate(model, x)

    @torch.no_grad()
    def packed() -> Tensor:
        logits: Tensor = model(x).logits
        return logits

    @torch.no_grad()
    def loop() -> Tensor:
        return sequential_logits(model, x)

    ctx.check("oracle", difference(packed(), loop()), 1e-5, label="the two that are timed")
    series = ctx.series(
        "packed_pass",
        "One pass for all steps",
        x=Axis(label="length", unit="tokens"),
        y=Axis(label="time", unit="ms", scale="log"),
        direction="lower",
        variants=[
            Variant(name="loop", label="the notes' loop"),
            Variant(name="packed", label="one packed pass", ours=True),
        ],
        baseline="loop",
    )
    calls: dict[str, Callable[[], object]] = {"loop": loop, "packed": packed}
    once = Comparison(series, params.oracle, lambda: calls)
    time_all(ctx, [once], params, baseline="loop")

"""Decoding measured: v2 against the base it is made of, in interleaved blocks."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from methods.concept_lm import checks
from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.boundaries import Fixed
from methods.concept_lm.config import ConceptConfig, ConceptError
from methods.concept_lm.decode import DecodeState, SlotCache, prefill, step
from methods.concept_lm.flops import Shape, speedup_bound
from methods.concept_lm.model import ConceptLM
from methods.concept_lm.reference import sequential_logits
from methods.concept_lm.spec import DecodeParams
from methods.context import Context, OpenSeries
from methods.kit.compare import difference, relative
from methods.kit.seeds import generator
from methods.measure.timing import Comparison, time_all
from methods.protocol import Axis, Limit, Variant
from methods.spec import Case

BURST = 16  # tokens a call; a whole number of segments for every 1 / rho up to 16


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
        self._run(x, torch.arange(n, device=x.device)[None], cache, n)
        return cache

    @torch.no_grad()
    def step(self, token: Tensor, cache: SlotCache) -> Tensor:
        """One token of each row."""
        return self._run(token[:, None], cache.lengths[:, None].to(token.device), cache, 1)

    def _run(self, x: Tensor, positions: Tensor, cache: SlotCache, n: int) -> Tensor:
        qwen = self.model.qwen
        h = self.model.run_layers(
            qwen.layers, qwen.embed_tokens(x), positions, cache.open(n, x.device), cache
        )
        cache.advance(n)
        return self.model.read_out(h[:, -1:])


def rewind(state: DecodeState) -> Callable[[], None]:
    """A function that takes decoding back to where it is now, so that every call is alike.

    Entries that are overwritten meanwhile keep their shape: time does not depend on their values.
    """
    caches = (state.shallow, state.middle, state.deep, state.probe)
    lengths = [cache.lengths.clone() for cache in caches]
    tail, concepts, times = state.tail.clone(), state.concepts.clone(), state.times.clone()
    memory = state.memory

    def back() -> None:
        for cache, length in zip(caches, lengths, strict=True):
            cache.lengths = length.clone()
        state.tail, state.concepts, state.times = tail.clone(), concepts.clone(), times.clone()
        state.memory = memory

    return back


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
            max_positions=max(params.contexts) + 4 * BURST,
        )
    base = load_base(source, dtype=getattr(torch, params.dtype))
    split = (params.shallow, params.middle, params.deep)
    config = ConceptConfig(*split, n_concepts=params.n_concepts, boundary="fixed")
    model = ConceptLM(base, config).to(device).eval()
    model.fold()
    if max(params.contexts) + BURST > model.base_config.max_position_embeddings:
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
    labels = {f"tokens_{n}": f"v2, a concept every {n} tokens" for n in rules}
    variants = [
        Variant(name="plain", label="the base, same cache buffers"),
        Variant(name="transformers", label="the base in transformers, DynamicCache"),
        *(Variant(name=name, label=label, ours=True) for name, label in labels.items()),
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
        variants=variants,
        baseline="plain",
        limits=limits,
    )
    kept = ctx.series(
        "kv_bytes",
        "Keys and values kept",
        x=context,
        y=Axis(label="size", unit="bytes", scale="log"),
        direction="lower",
        variants=[v for v in variants if v.name != "transformers"],
        baseline="plain",
    )
    series = ctx.series(
        "prefill",
        "Reading the prompt",
        x=Axis(label="prompt", unit="tokens", scale="log"),
        y=Axis(label="time", unit="ms"),
        direction="lower",
        variants=[v for v in variants if v.name != "transformers"],
        baseline="plain",
    )
    time_all(
        ctx,
        _comparisons(ctx, params, model, rules, speed=speed, kept=kept, reading=series),
        params,
        baseline="plain",
    )
    if params.oracle:
        _packed_against_loop(ctx, params)


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
            ours = {f"tokens_{n}": partial(_prefill, model, r, prompt) for n, r in rules.items()}
            return {"plain": plain, **ours}

        yield Comparison(speed, T, bursts, work=BURST * params.batch)
        if params.longest_prompt >= T:
            yield Comparison(reading, T, prefills)


def _prefill(model: ConceptLM, rule: Fixed, prompt: Tensor) -> DecodeState:
    model.boundary = rule
    return prefill(model, prompt, room=BURST)[1]


@torch.no_grad()
def _decoders(
    model: ConceptLM, rules: dict[int, Fixed], prompt: Tensor
) -> tuple[dict[str, Callable[[], object]], dict[str, int]]:
    """Calls that decode `BURST` tokens from a prompt and go back, and the bytes each keeps."""
    token = prompt[:, 0]
    T = prompt.shape[1]
    plain = Plain(model, len(prompt))
    cache = plain.prefill(prompt)

    def plain_burst() -> None:
        for _ in range(BURST):
            plain.step(token, cache)
        cache.lengths -= BURST

    theirs = DynamicCache(config=model.base_config)
    model.causal_lm(input_ids=prompt, past_key_values=theirs, use_cache=True, logits_to_keep=1)

    @torch.no_grad()
    def transformers_burst() -> None:
        for _ in range(BURST):
            model.causal_lm(input_ids=token[:, None], past_key_values=theirs, use_cache=True)
        theirs.crop(-BURST)

    def concept_burst(rule: Fixed, state: DecodeState, back: Callable[[], None]) -> None:
        model.boundary = rule
        for _ in range(BURST):
            step(model, token, state)
        back()

    calls: dict[str, Callable[[], object]] = {
        "plain": plain_burst,
        "transformers": transformers_burst,
    }
    sizes = {"plain": cache.bytes()}
    for n, rule in rules.items():
        state = _prefill(model, rule, prompt)
        sizes[f"tokens_{n}"] = state.kv_bytes()
        calls[f"tokens_{n}"] = partial(concept_burst, rule, state, rewind(state))
    assert int(cache.lengths[0]) == T
    return calls, sizes


@torch.no_grad()
def _same(model: ConceptLM, x: Tensor) -> Iterator[Case]:
    error = difference(model(x).logits, sequential_logits(model, x))
    yield Case(error, 1e-5, label="the two that are timed")


def _packed_against_loop(ctx: Context, params: DecodeParams) -> None:
    """The packed pass against the notes' loop, forward, on the tiny model of the checks."""
    model = checks.example(ctx.device, exact=False)
    x = checks.tokens(ctx.device, rows=1, n=params.oracle)
    checks.calibrate(model, x)
    ctx.check_all("oracle", _same(model, x))

    @torch.no_grad()
    def packed() -> object:
        return model(x)

    @torch.no_grad()
    def loop() -> object:
        return sequential_logits(model, x)

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

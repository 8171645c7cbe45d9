"""Time to the first token, prefill, decoding, memory and cache, beside what operations allow."""

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..context import Context, OpenSeries
from ..errors import InputError
from ..kit.compare import relative
from ..kit.report import Charts
from ..measure import memory
from ..measure.timing import Comparison, Variants, time_all
from ..protocol import Limit
from ..spec import Case
from . import accounting, checks
from .choice import Stage
from .config import PruningConfig
from .core import read
from .generate import step
from .llava import encode, load_llava, sized, visual_tokens
from .model import Pruner, run
from .selectors import REGISTRY
from .spec import LatencyParams
from .stream import Cache, Entered, Prompt, Reading, Stream, embed

Plans = dict[str, list[Stage]]  # where tokens leave, by variant


def schedule(llava: Any) -> PruningConfig:
    """The source's schedule at a model's sizes: layers and tokens in its proportions."""
    layers, visual = llava.config.text_config.num_hidden_layers, visual_tokens(llava)
    places = sorted({round(at * layers / 32) for at in (10, 20)} | {layers - 1})
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
    stages: Plans = {
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
    ctx: Context, params: LatencyParams, llava: Any, stages: Plans, timed: dict[str, OpenSeries]
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
def at_shape(llava: Any, prompt: Prompt, stages: Plans) -> Iterator[Case]:
    """What is timed is right at this prompt: unpruned against transformers, pruned against masking
    in the place of dropping, decoded against reading the whole sequence again.

    float32 is compared with float64, on the last row. Nothing is timed with gradients: see the
    check `gradients`.
    """
    bound, rows = (1e-4, len(prompt.ids)) if llava.dtype == torch.float32 else (5e-2, 1)
    row = slice(rows - 1, rows)
    last = prompt.each(lambda part: part[row])
    exact = copy.deepcopy(llava).double() if llava.dtype == torch.float32 else llava
    wanted = _theirs(exact, last).logits[:, -1]
    logits = read(llava, prompt, stages["plain"], cached=True).logits[row, -1]
    yield Case(relative(logits, wanted), bound, label=f"unpruned, {len(prompt.ids)} rows")
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
    """What is measured over the rows; `first`, `prefill` and `kv_bytes` beside what is counted."""
    prefill, first = (
        flops(shape, None, params.text) / flops(shape, config, params.text)
        for flops in (accounting.reading_flops, accounting.total_flops)
    )
    counts = accounting.token_counts(config, shape.layers, shape.visual, params.text)
    ctx.log(f"tokens by layer in the measured model: {counts}")
    fewer = shape.layers * (shape.visual + params.text) / sum(counts)
    fewest = {"first": first, "prefill": prefill, "kv_bytes": fewer}  # times fewer
    charts, made = Charts(ctx, __file__), {}
    for name in ("first", "prefill", "decode", "kv_bytes", "memory"):
        label = f"{'tokens' if name == 'kv_bytes' else 'operations'}, times fewer"
        points = tuple((float(batch), fewest[name]) for batch in params.batches if name in fewest)
        limits = [Limit(label=label, points=points, of="ratio")] if points else []
        shown = None if name == "first" else ("plain", "random", "pruned")
        made[name] = charts.open(name, shown, limits=limits)
    return made


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

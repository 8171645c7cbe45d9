"""Benchmarks: `latency`, `memory`, `model` of grouped heads; `decode`, `prefill` of selectors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..context import Context
from ..kit.compare import relative
from ..kit.report import Charts
from ..measure import memory as measured_memory
from ..measure.timing import Comparison, Variants, time_all
from ..protocol import Limit
from ..spec import Case
from . import kernel, peers
from .api import sparse_attention
from .block_sparse import block_sparse_attention, resolved
from .cache import SparseKVCache
from .checks import BOUNDS, Inputs, backend_of, chosen_at_shape, draw, gate
from .config import SparseAttentionConfig, flop_limit, resolve_window
from .gpt2 import GPT2Config, gpt2
from .oracle import head_masks
from .selectors import (
    Antidiagonal,
    BlockTopK,
    Local3d,
    MeanPooled,
    Radial,
    Selector,
    Strided,
    Summarised,
    VerticalSlash,
    WindowAndSinks,
    as_options,
    within,
)
from .spec import DecodeParams, LatencyParams, MemoryParams, ModelParams, PrefillParams

T = TypeVar("T")

Configs = dict[str, SparseAttentionConfig]  # of our variants


def _configs(params: LatencyParams | MemoryParams) -> Configs:
    adaptive = SparseAttentionConfig(params.local_heads, params.global_heads)
    return {"adaptive": adaptive, "fixed": replace(adaptive, adaptive_window=False)}


def latency(ctx: Context, params: LatencyParams) -> None:
    """Forward, and forward with backward, over lengths: dense, naive, published peers and ours."""
    kind = "our compiled kernel" if kernel.loaded() else "PyTorch's own calls"
    ctx.log(f"On the CPU, attention is computed by {kind}.")
    time_all(ctx, _comparisons(ctx, params), params, baseline="dense", samples=params.samples)


def _comparisons(ctx: Context, params: LatencyParams) -> Iterator[Comparison]:
    adaptive, dtype = _configs(params)["adaptive"], getattr(torch, params.dtype)
    # Our compiled kernel attends at another rate of operations than PyTorch's.
    kernelled = resolved("auto", torch.empty(0, dtype=dtype, device=ctx.device)) == "kernel"
    bound = Limit(
        label="FLOP limit, adaptive" + ", at our kernel's rate" * kernelled,
        points=tuple((float(n), flop_limit(adaptive, n)) for n in params.lengths),
        of="ratio",
        at="dense_kernel" if kernelled else None,
        variant="adaptive",
    )
    values: dict[str, Any] = {"params": params, "heads": adaptive.heads}
    charts = Charts(ctx, __file__)
    forward = charts.open("forward", limits=[bound], way="Forward", **values)
    both = charts.open("forward_backward", limits=[bound], way="Forward and backward", **values)
    for n in params.lengths:
        yield Comparison(forward, float(n), partial(_calls, ctx, params, n, False))
        if n <= params.backward_up_to:
            yield Comparison(both, float(n), partial(_calls, ctx, params, n, True))


def _calls(ctx: Context, params: LatencyParams, n: int, backward: bool) -> Variants:
    """Every variant at this length, after ours is checked at this very shape."""
    configs, dtype = _configs(params), getattr(torch, params.dtype)
    heads = configs["adaptive"].heads
    shape = params.batch, heads, n, params.d_head
    qkv, upstream = draw(*shape, device=ctx.device, dtype=dtype, seed=ctx.seed)
    grad = upstream if backward else None
    if resolved("auto", qkv.q) == "kernel":
        # Dense attention as a pattern of ours: every token is an anchor of every head.
        configs["dense_kernel"] = SparseAttentionConfig(0, heads, global_token_ratio=1.0)
    if ctx.device == "cuda":
        configs["windows"] = SparseAttentionConfig(heads, 0)
        configs["triton"] = configs["adaptive"]
    ctx.check_all("at_shape", gate(configs, qkv, grad))
    attentions = _attentions(ctx, params, configs, n, backward=backward)
    ctx.check_all("same_as_peers", _as_peers(attentions, qkv))
    attentions = chosen_variants(attentions, params.only)
    inputs = qkv.leaves(trained=backward)
    return {name: partial(_step, attend, inputs, grad) for name, attend in attentions.items()}


def _step(attend: peers.Attention, inputs: Inputs, grad: Tensor | None) -> object:
    """Attention, and with a gradient of the output those of the inputs."""
    with torch.set_grad_enabled(grad is not None):
        out = attend(*inputs)
    return out if grad is None else torch.autograd.grad(out, inputs, grad.reshape(out.shape))


@torch.no_grad()
def _as_peers(attentions: Mapping[str, peers.Attention], qkv: Inputs) -> Iterator[Case]:
    """Peers that compute the same function give the same output."""
    for name in ("sdpa_mask", "flex"):
        if name in attentions:
            apart = relative(attentions["adaptive"](*qkv), attentions[name](*qkv))
            yield Case(apart, BOUNDS[qkv.q.dtype], label=f"{name}, n = {qkv.q.shape[2]}")


def _dense_and_ours(
    ctx: Context, params: LatencyParams | MemoryParams, configs: Configs, n: int
) -> dict[str, peers.Attention]:
    """Dense attention, ours by configuration and, where n is not too long, ours by n x n masks."""
    attentions: dict[str, peers.Attention] = {"dense": peers.dense}
    attentions |= {
        name: partial(sparse_attention, config=config, backend=backend_of(name))
        for name, config in configs.items()
    }
    if n <= params.peers_up_to:
        mask = head_masks(configs["adaptive"], n, n).to(ctx.device)
        attentions |= {
            "naive": partial(peers.naive, mask),
            "sdpa_mask": partial(peers.sdpa_mask, mask),
        }
    return attentions


def _attentions(
    ctx: Context, params: LatencyParams, configs: Configs, n: int, *, backward: bool
) -> dict[str, peers.Attention]:
    """The variants that exist at this length, direction and device."""
    attentions = _dense_and_ours(ctx, params, configs, n)
    if n > params.linear_peers_up_to and not params.only:
        return attentions
    adaptive = configs["adaptive"]
    window = resolve_window(configs["fixed"], n)
    attentions["local_attention"] = peers.local_attention(window)
    if params.dtype == "float32" and n % 2 == 0:
        attentions["longformer"] = peers.longformer(adaptive.heads, params.d_head, window, n)
    if params.dtype == "float32" and n % 64 == 0 and n >= 12 * 64:
        attentions["big_bird"] = peers.big_bird(adaptive.heads, params.d_head, n)
    if params.flex and ctx.device == "cpu" and not backward:
        if flex := peers.flex(adaptive, n):
            attentions["flex"] = flex
        else:
            ctx.log("FlexAttention is left out: it needs a C++ compiler on the CPU.")
    return attentions


def attention_memory(params: LatencyParams | MemoryParams, device: str) -> int:
    """Bytes at the worst: tensors of the longest length, scores of the longest peer."""
    heads = (params.local_heads + params.global_heads) * getattr(params, "batch", 1)
    peer = min(max(params.lengths), params.peers_up_to)
    return 24 * heads * max(params.lengths) * params.d_head * 4 + 24 * heads * peer * peer


def memory(ctx: Context, params: MemoryParams) -> None:
    """Peak of one training step of attention, and the size of the key-value cache."""
    configs = _configs(params)
    heads, charts = configs["adaptive"].heads, Charts(ctx, __file__)
    peaks = charts.open("peak", ("dense", "adaptive", "fixed", "naive", "sdpa_mask"))
    caches = charts.open("kv_cache", ("dense", "adaptive", "fixed"), params=params, heads=heads)
    for step, n in enumerate(params.lengths):
        ctx.progress(step, len(params.lengths), f"n = {n}")
        qkv, grad = draw(1, heads, n, params.d_head, device=ctx.device, seed=ctx.seed)
        ctx.check_all("at_shape", gate(configs, qkv, grad))
        mebibytes, inputs = {}, qkv.leaves()
        for name, attend in _dense_and_ours(ctx, params, configs, n).items():
            run = partial(_step, attend, inputs, grad)
            run()
            mebibytes[name] = measured_memory.peak(run, ctx.device) / 2**20
        peaks.add_exact(n, mebibytes)
        stored = {"dense": 2 * heads * n * params.d_head * 4}
        for name, config in configs.items():
            cache = SparseKVCache(config, kv_heads=heads, context=n)
            cache.attend(*qkv)
            stored[name] = cache.nbytes
        caches.add_exact(n, {name: size / 2**20 for name, size in stored.items()})
    ctx.progress(1, 1)


def model(ctx: Context, params: ModelParams) -> None:
    """A whole GPT-2 with either attention: the gain when all other layers count as well."""
    charts = Charts(ctx, __file__)
    opened = {
        name: charts.open(f"model_{name}", ("dense", "adaptive"), way=way, params=params)
        for name, way in (("forward", "Forward"), ("training", "Forward and backward"))
    }
    comparisons = (
        Comparison(opened[name], float(n), partial(_steps, ctx, params, n, name == "training"))
        for n in params.lengths
        for name in opened
    )
    time_all(ctx, comparisons, params, baseline="dense")


def _steps(ctx: Context, params: ModelParams, n: int, training: bool) -> Variants:
    """A step of the model with either attention, on the same tokens."""
    # Two thirds are local: `n_head` is a multiple of 3.
    ours = SparseAttentionConfig(2 * params.n_head // 3, params.n_head // 3)
    shape = params.batch, params.n_head, n, params.n_embd // params.n_head
    ctx.check_all("at_shape", gate({"adaptive": ours}, *draw(*shape, device=ctx.device)))
    torch.manual_seed(ctx.seed)
    tokens = torch.randint(0, params.vocab_size, (params.batch, n), device=ctx.device)
    sizes = params.model_dump(include={"vocab_size", "n_layer", "n_head", "n_embd"})
    config = GPT2Config(n_positions=n, sparse_config=ours, **sizes)
    configs = {"dense": config, "adaptive": replace(config, use_sparse_attention=True)}
    return {
        name: _model_step(config, tokens, ctx, training=training)
        for name, config in configs.items()
    }


def _model_step(
    config: GPT2Config, tokens: Tensor, ctx: Context, *, training: bool
) -> Callable[[], object]:
    torch.manual_seed(ctx.seed)
    net = gpt2(config).to(ctx.device).train(training)

    def run() -> object:
        if not training:
            with torch.no_grad():
                return net(tokens, use_cache=False).logits
        net.zero_grad(set_to_none=True)
        logits = net(tokens, use_cache=False).logits[:, :-1].flatten(0, 1).float()
        loss = torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    return run


def model_memory(params: ModelParams, device: str) -> int:
    """Bytes at the worst: two models with gradients, activations and logits of the longest."""
    weights = params.vocab_size * params.n_embd + 12 * params.n_layer * params.n_embd**2
    rows = params.batch * max(params.lengths)
    activations = rows * (20 * params.n_layer * params.n_embd + 4 * params.vocab_size)
    return 4 * (4 * weights + activations)


# --- Chosen blocks -------------------------------------------------------------------------------


def decode(ctx: Context, params: DecodeParams) -> None:
    """Time a token over the cache's length, and what choosing alone takes of it."""
    ctx.log(f"Our compiled kernel is {'' if kernel.loaded() else 'not '}built.")
    charts = Charts(ctx, __file__)
    tokens, choosing = (charts.open(name, params=params) for name in ("decode", "choice"))

    def comparisons() -> Iterator[Comparison]:
        for n in params.lengths:
            yield Comparison(tokens, float(n), partial(_tokens, ctx, params, n))
            if params.only:
                continue
            yield Comparison(choosing, float(n), partial(_choices, ctx, params, n))

    time_all(ctx, comparisons(), params, baseline="dense")


def _drawn(ctx: Context, params: DecodeParams | PrefillParams, n_q: int, n_k: int) -> Inputs:
    """n_q queries and n_k keys and values of every head."""
    dtype = getattr(torch, params.dtype)
    shapes = (params.heads, n_q), (params.kv_heads, n_k), (params.kv_heads, n_k)
    device, drawn = ctx.device, []
    for i, (heads, n) in enumerate(shapes):  # on the device: a CPU takes a minute over a cache
        of_seed = torch.Generator(device).manual_seed(ctx.seed + i)
        size = params.batch, heads, n, params.d_head
        drawn.append(torch.randn(size, generator=of_seed, device=device).to(dtype))
    return Inputs(*drawn)


def _choice(selector: Selector, q: Tensor, k: Tensor) -> Callable[[], Tensor]:
    """Return the call that chooses: when decoding, from summaries where a cache keeps them."""
    if isinstance(selector, Summarised) and q.shape[2] == 1:
        return partial(selector.choose, q, selector.summaries(k), k.shape[2])
    return partial(selector, q, k)


def _tokens(ctx: Context, params: DecodeParams, n: int) -> Variants:
    """A decoding step of every variant, each checked at this very shape."""
    qkv = _drawn(ctx, params, 1, n)
    dense = partial(F.scaled_dot_product_attention, enable_gqa=True)
    chosen = chosen_variants(within(params.budget, n), params.only)
    calls = _beside(ctx, qkv, dense, chosen, f"n = {n}")
    calls["all_keys"] = partial(_quiet, block_sparse_attention, *qkv, None)
    return {name: _recorded(ctx, name, call) for name, call in calls.items()}


def _choices(ctx: Context, params: DecodeParams, n: int) -> Variants:
    q, k, _ = _drawn(ctx, params, 1, n)
    chosen = within(params.budget, n).items()
    calls = {name: partial(_quiet, _choice(x, q, k)) for name, x in chosen}
    return {name: _recorded(ctx, name, call) for name, call in calls.items()}


def _recorded(ctx: Context, name: str, call: Callable[[], object]) -> Callable[[], object]:
    """Record the call as a CUDA graph on a GPU, as engines decode: else launches are compared.

    A call that waits for the GPU cannot be recorded; it is timed as it is, and the run says so.
    """
    if ctx.device != "cuda":
        return call
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(aside):  # what is compiled or kept at the first call is so before
        call()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            call()
    except RuntimeError as error:
        ctx.log(f"{name} is not recorded: {str(error).splitlines()[0]}")
        return call
    return graph.replay


def prefill(ctx: Context, params: PrefillParams) -> None:
    """A whole prompt, and a whole video: choosing and attending, beside dense attention."""
    charts = Charts(ctx, __file__)
    in_videos = {"local_3d", "radial", "block_top_k"}

    def comparisons() -> Iterator[Comparison]:
        if not params.only or not in_videos.issuperset(params.only):
            prompts = charts.open("prefill", params=params)
            for n in params.lengths:
                yield Comparison(prompts, float(n), partial(_prompt, ctx, params, n))
        if not params.only or not in_videos.isdisjoint(params.only):
            videos = charts.open("video", params=params)
            for frames in params.frames:
                build = partial(_video, ctx, params, frames)
                yield Comparison(videos, float(frames * 16 * 16), build)

    time_all(ctx, comparisons(), params, baseline="dense")


def _prompt(ctx: Context, params: PrefillParams, n: int) -> Variants:
    blocks = max(3, params.budget // 64)
    chosen: dict[str, Selector] = {
        "window_sinks": WindowAndSinks(window=blocks - 1, query_block=64),
        "strided": Strided(max(2, -(-2 * n // params.budget)), blocks // 2, query_block=64),
        "mean_pooled": MeanPooled(top=blocks - 2),
        "antidiagonal": Antidiagonal(p=params.share),
        "vertical_slash": VerticalSlash(blocks // 3, blocks // 3),
    }
    dense = partial(F.scaled_dot_product_attention, is_causal=True, enable_gqa=True)
    qkv = _drawn(ctx, params, n, n)
    calls = _beside(ctx, qkv, dense, chosen_variants(chosen, params.only), f"n = {n}")
    calls["all_keys"] = partial(_quiet, block_sparse_attention, *qkv, None)
    return calls


def _video(ctx: Context, params: PrefillParams, frames: int) -> Variants:
    n, dense = frames * 16 * 16, partial(F.scaled_dot_product_attention, enable_gqa=True)
    chosen: dict[str, Selector] = {
        "local_3d": Local3d((frames, 16, 16)),
        "radial": Radial(frames),
        "block_top_k": BlockTopK(top=max(1, params.budget // 64)),
    }
    qkv = _drawn(ctx, params, n, n)
    calls = _beside(ctx, qkv, dense, chosen_variants(chosen, params.only), f"{frames} frames")
    calls["all_keys"] = partial(_quiet, block_sparse_attention, *qkv, None, causal=False)
    return calls


def chosen_variants(variants: Mapping[str, T], only: Sequence[str]) -> dict[str, T]:
    """Those that `only` names, with the baseline and the control; all where it names none."""
    always = {"dense", "dense_kernel"}
    return {name: x for name, x in variants.items() if not only or name in {*only, *always}}


def _beside(
    ctx: Context, qkv: Inputs, dense: peers.Attention, chosen: Mapping[str, Selector], label: str
) -> dict[str, Callable[[], object]]:
    """Dense attention and every selector, once it is right at this very shape."""
    calls: dict[str, Callable[[], object]] = {"dense": partial(_quiet, dense, *qkv)}
    for name, selector in chosen.items():
        choice = _choice(selector, qkv.q, qkv.k)
        ctx.check_all("at_shape", chosen_at_shape(qkv, choice(), selector, f"{name}, {label}"))
        attend = partial(block_sparse_attention, *qkv, **as_options(selector))
        calls[name] = partial(_quiet, _chosen, choice, attend)
    return calls


def _chosen(choice: Callable[[], Tensor], attend: Callable[..., Tensor]) -> Tensor:
    return attend(blocks=choice())


@torch.no_grad()
def _quiet(call: Callable[..., Tensor], *args: Any, **options: Any) -> object:
    return call(*args, **options)

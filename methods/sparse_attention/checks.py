"""Table of checks, which must hold before any speed is reported.

Each function yields cases for one device; bounds are norm-relative unless they say otherwise.
`gate` checks besides the very shapes that a benchmark measures.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor

from ..kit.compare import largest, relative
from ..kit.seeds import generator
from ..measure import memory
from ..spec import Case
from . import definitions
from .api import PaddingSide, sparse_attention
from .block_sparse import Backend, block_sparse_attention, resolved
from .cache import SparseKVCache
from .config import SparseAttentionConfig, head_groups, sparsity_ratio
from .oracle import block_mask, head_masks, masked_attention, oracle_attention
from .selectors import SELECTORS, Selector, Summarised, as_options

BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
FINE = 1e-5
DOUBLED = (2048, 4096)
SMALL = SparseAttentionConfig(local_heads=4, global_heads=2)


def _fixed(window: int, **more: Any) -> SparseAttentionConfig:
    return SparseAttentionConfig(4, 2, window, adaptive_window=False, **more)


# Lengths around tile edges, shorter than the window, odd; w = 1 and w = n; every option.
SHAPES: tuple[tuple[str, int, SparseAttentionConfig], ...] = (
    ("one token", 1, SMALL),
    ("n below w", 50, _fixed(128)),
    ("odd n", 333, SMALL),
    ("w = 1", 130, _fixed(1)),
    ("w = n", 200, _fixed(200)),
    ("n not whole tiles", 487, _fixed(100)),
    ("n whole strides", 480, SMALL),
    ("two windows", 333, _fixed(64, window_sizes=(40, 130))),
)


def relative_error(ours: Tensor, expected: Tensor) -> float:
    """|ours - expected| / |expected| in Euclidean norm.

    An `expected` below 0.05 an element in the mean counts as 0.05, and one that is 0 as 1: the
    gradient of a softmax over one key is exactly 0, and its rounding, which is that of the products
    of order 1 that cancel, has nothing else to be relative to.
    """
    root = expected.numel() ** 0.5
    nothing = float(expected.detach().double().norm()) < 1e-6 * root
    return relative(ours, expected, (1.0 if nothing else 0.05) * root)


class Inputs(NamedTuple):
    """q, k, v of (batch, heads, n, d)."""

    q: Tensor
    k: Tensor
    v: Tensor

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """All three, changed alike."""
        return type(self)(change(self.q), change(self.k), change(self.v))

    def leaves(self, *, trained: bool = True) -> Self:
        """The same values, as leaves of a new graph."""
        return self.each(lambda x: x.detach().clone().requires_grad_(trained))


def draw(
    *shape: int, device: str, dtype: torch.dtype = torch.float32, seed: int = 0
) -> tuple[Inputs, Tensor]:
    """Inputs and an output gradient, the same on every device."""
    source = generator(seed)
    q, k, v, grad = (torch.randn(*shape, generator=source).to(device, dtype) for _ in range(4))
    return Inputs(q, k, v), grad


def backends(device: str, dtype: torch.dtype = torch.float32) -> tuple[Backend, ...]:
    """Backends that run on the device; "flex" runs uncompiled on a CPU."""
    picked = cast(Backend, resolved("auto", torch.empty(0, dtype=dtype, device=device)))
    others: tuple[Backend, ...] = ("portable", "flex")
    return others if picked in others else (picked, *others)


def oracle(device: str) -> Iterator[Case]:
    """Output and gradients of every backend and dtype against the float64 definition."""
    for dtype, bound in BOUNDS.items():
        for label, n, config in SHAPES:
            qkv, grad = draw(2, config.heads, n, 16, device=device, dtype=dtype, seed=n)
            expected = _with_gradients(oracle_attention, qkv, grad.double(), config)
            for backend in backends(device, dtype):
                attend = partial(sparse_attention, backend=backend)
                ours = _with_gradients(attend, qkv, grad, config)
                errors = [relative_error(*pair) for pair in zip(ours, expected, strict=True)]
                name = str(dtype).removeprefix("torch.")
                yield Case(largest(errors), bound, label=f"{backend}, {name}, {label}")


# Tokens, head size, samples and the size of scores: a kernel may be wrong at one of each alone.
SIZES = (
    (330, 16, 1, 1), (330, 64, 5, 6), (330, 80, 2, 30), (330, 128, 5, 1), (330, 96, 1, 1000),
    (2161, 80, 1, 1), (4500, 128, 1, 6), (9000, 16, 1, 1),
)  # fmt: skip


def sizes(device: str) -> Iterator[Case]:
    """Output and gradients where sizes differ: head, batch, length, scores; strides that differ."""
    config = SparseAttentionConfig(1, 1, 100, adaptive_window=False)
    for n, d, batch, size in SIZES:
        (q, k, v), grad = draw(batch, 2, n, d, device=device, seed=n + d)
        v = v.transpose(1, 2).contiguous().transpose(1, 2)  # q, k and v often come from one tensor
        inputs = Inputs(q * size**0.5, k * size**0.5, v)
        label = f"d = {d}, batch {batch}, scores of {size}"
        for case in at_shape(inputs, grad, config):
            # Scores of 1,000 are known to 6e-5 in float32, and so are their exponentials.
            yield replace(case, measured=case.measured / size, label=f"{case.label}, {label}")
        every = torch.arange(-(-n // 64), device=device).view(1, 1, 1, -1)
        picked = every[..., torch.randperm(every.shape[-1], generator=generator(n))[:40]]
        error = _blocks_at_shape(inputs, grad, picked)
        yield Case(error / size, FINE, label=f"blocks, n = {n}, {label}")


def _blocks_at_shape(inputs: Inputs, grad: Tensor, blocks: Tensor) -> float:
    """The error of the operator on chosen blocks and its gradients, for the last queries."""
    rows, n = 50, inputs.q.shape[2]
    late = Inputs(inputs.q[:, :, -rows:], inputs.k, inputs.v)
    leaves, exact = late.leaves(), late.each(torch.Tensor.double).leaves()
    cut: dict[str, Any] = {"query_block": rows, "key_block": 64}
    out = block_sparse_attention(*leaves, blocks, **cut)
    mask = block_mask(blocks.cpu(), rows, n, **cut).to(out.device)
    truth = masked_attention(*exact, mask)
    ours = torch.autograd.grad(out, leaves, grad[:, :, -rows:])
    gradients = torch.autograd.grad(truth, exact, grad[:, :, -rows:].double())
    pairs = zip((out, *ours), (truth, *gradients), strict=True)
    return largest([relative_error(*pair) for pair in pairs])


# Selectors that choose for every query, so few keys that most are left out.
FEW: dict[str, dict[str, Any]] = {
    "window_sinks": {"window": 2, "key_block": 16},
    "strided": {"stride": 3, "window": 2, "key_block": 16},
    "mean_pooled": {"top": 2, "key_block": 16},
    "page_bounds": {"top": 2, "key_block": 16},
    "top_p": {"p": 0.5, "most": 3, "key_block": 16},
    "exact": {"top": 2, "key_block": 16},
}


def choices(device: str) -> Iterator[Case]:
    """Every selector: nothing later changes a choice, and a decoded token chooses as a prompt's."""
    n, t = 300, 200
    q, k = (draw(1, heads, n, 32, device=device, seed=heads)[0].q for heads in (4, 2))
    later = torch.cat([k[:, :, :t], 50 * k[:, :, t:]], dim=2)
    for name, options in FEW.items():
        selector: Selector = SELECTORS[name](**options)
        attend = partial(block_sparse_attention, key_block=selector.key_block)
        whole, changed = (attend(q, x, x, selector(q, x)) for x in (k, later))
        difference = float((whole - changed)[:, :, :t].abs().max())
        yield Case(difference, 0.0, label=f"{name}, the future")
        query, past = q[:, :, t - 1 : t], k[:, :, :t]
        token = attend(query, past, past, selector(query, past))
        yield Case(relative(token, whole[:, :, t - 1 : t]), FINE, label=f"{name}, decoding")


# Of selectors that choose for blocks of queries, over 96 tokens.
BY_BLOCK: dict[str, dict[str, Any]] = {
    "antidiagonal": {"p": 0.6, "stride": 4, "block": 16},
    "vertical_slash": {"vertical": 1, "slash": 1, "last": 16, "block": 16},
    "local_3d": {"shape": (6, 4, 4), "tile": (2, 2, 2), "window": (3, 1, 3)},
    "radial": {"frames": 6, "frame": 16, "block": 4},
    "block_top_k": {"top": 2, "block": 16},
}


def equations(device: str) -> Iterator[Case]:
    """Every selector and what the cache keeps, against their definition in loops."""
    q, k = (draw(1, heads, 96, 16, device="cpu", seed=heads)[0].q for heads in (4, 2))
    groups = list(zip(torch.unflatten(q[0], 0, (2, 2)), k[0], strict=True))
    for name in SELECTORS:
        selector: Selector = SELECTORS[name](**(FEW | BY_BLOCK)[name])
        blocks = selector(q.to(device), k.to(device))[0].expand(2, -1, -1)
        expected = [getattr(definitions, name)(selector, *group) for group in groups]
        yield Case(_sets(blocks) == expected, True, label=name)
    yield from _kept_summaries()


def _sets(blocks: Tensor) -> list[list[set[int]]]:
    return [[set(row) - {-1} for row in head] for head in blocks.tolist()]


def _kept_summaries() -> Iterator[Case]:
    """A cache's summaries are those of its keys, after it was cropped and its samples changed."""
    from .hugging_face import KeptLayer  # noqa: PLC0415 - transformers is slow to import

    for name in ("mean_pooled", "page_bounds", "top_p"):
        selector: Summarised = SELECTORS[name](**FEW[name])
        layer, k = KeptLayer(selector), draw(3, 2, 120, 16, device="cpu", seed=1)[0].k
        layer.update(k[:, :, :70], k[:, :, :70])
        layer.crop(-25)
        layer.update(k[:, :, 70:100], k[:, :, 70:100])
        layer.reorder_cache(torch.tensor([2, 0, 0]))
        keys, _ = layer.update(k[:, :, 100:], k[:, :, 100:])
        before = torch.cat([k[:, :, :45], k[:, :, 70:100]], 2)[[2, 0, 0]]
        chosen = torch.cat([before, k[:, :, 100:]], 2)
        same = [torch.equal(keys, chosen)]
        for stored, expected in zip(layer.summaries(), selector.summaries(chosen), strict=True):
            same.append(stored.shape == expected.shape and torch.allclose(stored, expected))
        yield Case(all(same), True, label=f"{name}, cache")


def ranges(device: str) -> Iterator[Case]:
    """Queries that begin anywhere among the keys, and keys that end anywhere."""
    (q, k, v), _ = draw(1, 2, 192, 16, device=device)
    late = q[:, :, :64]
    exact, errors = Inputs(late, k, v).each(torch.Tensor.double), []
    cases: list[dict[str, Any]] = [{"offset": offset} for offset in range(64)]
    cases += [
        {"causal": False, "key_range": torch.tensor([[3, end]], device=device)}
        for end in range(65, 129)
    ]
    blocks = torch.arange(3, device=device).view(1, 1, 1, 3)
    for chosen in cases:
        out = block_sparse_attention(late, k, v, None, **chosen)
        mask = block_mask(blocks.cpu(), 64, 192, query_block=64, key_block=192, **chosen)
        errors.append(relative(out, masked_attention(*exact, mask.to(device))))
    yield Case(largest(errors[:64]), FINE, label="offsets")
    yield Case(largest(errors[64:]), FINE, label="ends of keys")


def _with_gradients(
    attend: Callable[..., Tensor], qkv: Inputs, grad: Tensor | None, config: SparseAttentionConfig
) -> list[Tensor]:
    """Output, dQ, dK, dV; the output alone without a gradient of the output."""
    inputs = qkv.leaves(trained=grad is not None)
    out = attend(*inputs, config)
    return [out] if grad is None else [out, *torch.autograd.grad(out, inputs, grad)]


def gradients(device: str) -> Iterator[Case]:
    """The backward pass against finite differences, in float64."""
    tiny = SparseAttentionConfig(1, 1, 5, 0.25, adaptive_window=False)
    inputs, _ = draw(1, tiny.heads, 14, 3, device=device, dtype=torch.float64)
    attend = partial(sparse_attention, config=tiny)
    right = torch.autograd.gradcheck(attend, tuple(inputs.leaves()), raise_exception=False)
    yield Case(bool(right), True)


def causality(device: str) -> Iterator[Case]:
    """Changing tokens from t on changes nothing before t: exactly 0."""
    n, config = 400, _fixed(64)
    qkv, _ = draw(1, config.heads, n, 32, device=device)
    for backend in backends(device):
        attend = partial(sparse_attention, config=config, backend=backend)
        out = attend(*qkv)
        changes = [_change(attend, qkv, out, t, -1e3) for t in (1, 33, 190, 200, 399)]
        yield Case(largest(changes), 0.0, label=backend)


def finite(device: str) -> Iterator[Case]:
    """No infinity and no NaN in outputs and gradients, from scale 0 to 10,000."""
    for dtype in BOUNDS:
        for backend in backends(device, dtype):
            for scale in (0.0, 1e-3, 100.0, 1e4):
                config = _fixed(64)
                qkv, grad = draw(1, config.heads, 150, 32, device=device, dtype=dtype)
                scaled = Inputs(*(x * scale for x in qkv))
                attend = partial(sparse_attention, backend=backend)
                # The definition, which "flex" runs on a CPU, has a backward pass that overflows.
                forward_only = backend == "flex" and device == "cpu"
                ours = _with_gradients(attend, scaled, None if forward_only else grad, config)
                name = str(dtype).removeprefix("torch.")
                good = all(bool(x.isfinite().all()) for x in ours)
                yield Case(good, True, label=f"{backend}, {name}, scale {scale:g}")


def decoding(device: str) -> Iterator[Case]:
    """Cached decoding equals the full pass, beyond the window; a prefix does not see n."""
    n = 300
    for label, config in (("one", _fixed(48)), ("two", _fixed(48, window_sizes=(7, 90)))):
        qkv, _ = draw(2, config.heads, n, 32, device=device)
        full = sparse_attention(*qkv, config)
        cache = SparseKVCache(config, kv_heads=config.heads, context=n)
        sizes = [60, *[1] * 150, 17, *[1] * 73]  # a prompt, tokens, a second prompt, tokens
        chunks = zip(*(torch.split(x, sizes, dim=2) for x in qkv), strict=True)
        out = torch.cat([cache.attend(*chunk) for chunk in chunks], dim=2)
        yield Case(relative_error(out, full), FINE, label=f"cache, {label} window")
    qkv, _ = draw(1, SMALL.heads, 700, 32, device=device)
    long = sparse_attention(*qkv, SMALL, context=1024)
    short = sparse_attention(*qkv.each(lambda x: x[:, :, :600]), SMALL, context=1024)
    yield Case(relative_error(short, long[:, :, :600]), FINE, label="prefix of 600 in 700")


def padding(device: str) -> Iterator[Case]:
    """Padding rows are 0 whatever stands there; a batch equals its samples; GQA equals copies."""
    config, n = _fixed(48), 150
    (q, k, v), _ = draw(3, config.heads, n, 32, device=device)
    qkv = Inputs(q, k[:, ::2], v[:, ::2])  # 3 key-value heads for 6 query heads
    lengths = torch.tensor([n, 97, 0], device=device)
    sides: tuple[PaddingSide, ...] = ("right", "left")
    pads, singles = [], []
    for side in sides:
        real = torch.arange(n, device=device) < lengths[:, None]  # (batch, n)
        real = real if side == "right" else real.flip(1)
        pad = ~real[:, None, :, None]  # (batch, 1, n, 1)
        spoiled = Inputs(*(x.masked_fill(pad, torch.nan) for x in qkv))
        out = sparse_attention(*spoiled, config, key_lengths=lengths, padding_side=side, context=n)
        pads.append(float(out.where(pad, 0.0).abs().sum()))
        for b in lengths.nonzero().flatten().tolist():
            alone = Inputs(*(x[b : b + 1, :, real[b]] for x in qkv))
            single = sparse_attention(*alone, config, context=n)
            singles.append(relative_error(out[b : b + 1, :, real[b]], single))
    yield Case(largest(pads), 0.0, label="padding rows")
    yield Case(largest(singles), FINE, label="batch against single samples")
    grouped = sparse_attention(*qkv, config)
    copies = Inputs(q, *(x.repeat_interleave(2, 1) for x in qkv[1:]))
    copied = sparse_attention(*copies, config)
    yield Case(relative_error(grouped, copied), FINE, label="GQA against copied heads")


def memory_growth(device: str) -> Iterator[Case]:
    """Peak memory of forward and backward when n doubles."""
    peaks = []
    for n in DOUBLED:
        qkv, grad = draw(1, SMALL.heads, n, 64, device=device)
        attend = partial(sparse_attention, context=DOUBLED[1])
        step = partial(_with_gradients, attend, qkv, grad, SMALL)
        step()
        peaks.append(memory.peak(step, device))
    label = "n = {} to {}, forward and backward".format(*DOUBLED)
    yield Case(peaks[1] / peaks[0], 2.3, label=label)


def closed_forms(device: str) -> Iterator[Case]:
    """Pairs and sparsity in closed form against counted masks: exactly equal."""
    for label, n, config in SHAPES:
        counted = head_masks(config, n, n).sum((1, 2))  # (heads,)
        groups = head_groups(config, config.heads, n)
        equal = all(group.pairs(n) == int(counted[group.start]) for group in groups)
        yield Case(equal, True, label=label)
    default = SparseAttentionConfig()
    for n in (128, 512, 1024):
        exact = 1.0 - int(head_masks(default, n, n).sum()) / (default.heads * n * n)
        yield Case(sparsity_ratio(default, n) == exact, True, label=f"sparsity at {n}")


def reach(config: SparseAttentionConfig, n: int) -> float:
    r"""Share of causal pairs (i, j) where something of token j can arrive at i in two layers.

    Equation: $\frac{2}{n (n + 1)} \sum_{j \le i} [\, (A^2)_{ij} > 0 \,], \quad
    A_{ij} = \max_h M_{hij}$

    Two layers suffice when w >= s: a window brings token j to an anchor, the anchor to i.
    """
    any_head = head_masks(config, n, n).any(0).double()  # (n, n)
    reached = any_head @ any_head > 0  # (n, n)
    return float(reached.tril().sum() / (n * (n + 1) / 2))


def two_layer_reach(device: str) -> Iterator[Case]:
    """Reach of two layers with w >= s: from every token to every later one."""
    yield Case(reach(_fixed(10), 500), 1.0, ">=", label="w = s = 10, n = 500")
    yield Case(reach(SparseAttentionConfig(), 1000), 1.0, ">=", label="defaults, n = 1000")


def gate(
    configs: Mapping[str, SparseAttentionConfig], qkv: Inputs, grad: Tensor | None
) -> Iterator[Case]:
    """Every variant's configuration `at_shape`."""
    for name, config in configs.items():
        for case in at_shape(qkv, grad, config, backend_of(name)):
            yield replace(case, label=f"{name}, {case.label}")


def backend_of(variant: str) -> Backend:
    """Return the backend that computes a variant of a benchmark."""
    return "triton" if variant == "triton" else "auto"


def at_shape(
    qkv: Inputs, grad: Tensor | None, config: SparseAttentionConfig, backend: Backend = "auto"
) -> Iterator[Case]:
    r"""Check a timed call at the very shape and batch that is timed, on sampled rows R.

    Equation: $\lVert \hat o_R - o_R \rVert_2 \le \varepsilon \lVert o_R \rVert_2$

    q, k, v and `grad` are (batch, heads, n, d); o is the definition's output, or a gradient. The
    gradient of the output is 0 but for those rows: then they alone make up dK and dV, and the
    definition gives every key's in time. `grad` None checks the output alone. That nothing looks
    into the future is exact: the outputs before t are the same bits whatever follows.
    """
    n, bound = qkv.q.shape[2], BOUNDS[qkv.q.dtype]
    attend = partial(sparse_attention, config=config, backend=backend)
    even = torch.linspace(0, n - 1, min(n, 48)).long().tolist()
    drawn = torch.randint(n, (16,), generator=generator(n)).tolist()
    rows = torch.tensor(sorted({*even, *drawn}))
    inputs = qkv.leaves(trained=grad is not None)
    exact = qkv.each(torch.Tensor.double).leaves(trained=grad is not None)
    index = rows.to(qkv.q.device)
    with torch.set_grad_enabled(grad is not None):
        out = attend(*inputs)
        expected = oracle_attention(*exact, config, rows=rows)
    yield Case(relative(out[:, :, index], expected), bound, label=f"n = {n}, output")
    yield Case(_change(attend, inputs, out, n * 2 // 3, -3), 0.0, label=f"n = {n}, the future")
    if grad is None:
        return
    upstream = torch.zeros_like(grad)
    upstream[:, :, index] = grad[:, :, index]
    ours = torch.autograd.grad(out, inputs, upstream)
    wanted_gradients = torch.autograd.grad(expected, exact, grad[:, :, index].double())
    for name, a, b in zip(("dQ", "dK", "dV"), ours, wanted_gradients, strict=True):
        yield Case(relative(a, b), bound, label=f"n = {n}, {name}")


@torch.no_grad()
def chosen_at_shape(qkv: Inputs, blocks: Tensor, selector: Selector, label: str) -> Iterator[Case]:
    r"""The last queries against the definition, over the blocks (batch, heads, runs, most) chosen.

    Equation: $\lVert \hat o_R - o_R \rVert_2 \le \varepsilon \lVert o_R \rVert_2$
    """
    (q, k, v), n_k = qkv, qkv.k.shape[2]
    rows = min(16, q.shape[2])
    runs = torch.arange(q.shape[2] - rows, q.shape[2]) // selector.query_block
    options = as_options(selector)
    out = block_sparse_attention(q, k, v, blocks, **options)[:, :, -rows:]
    mask = block_mask(blocks[:, :, runs], rows, n_k, **options | {"query_block": 1})
    mask = mask.repeat_interleave(q.shape[1] // mask.shape[1], 1).to(q.device)
    keys, values = (x.double().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    expected = masked_attention(q[:, :, -rows:].double(), keys, values, mask)
    yield Case(relative(out, expected), BOUNDS[q.dtype], label=label)


@torch.no_grad()
def _change(attend: Callable[..., Tensor], qkv: Inputs, out: Tensor, t: int, times: float) -> float:
    """The largest change of the outputs before t when the inputs from t on are so much larger."""
    changed = qkv.each(torch.clone)
    for x in changed:
        x[:, :, t:] *= times
    return float((attend(*changed) - out)[:, :, :t].abs().amax()) if t else 0.0

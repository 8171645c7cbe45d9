"""The operator: `block_sparse_attention(q, k, v, blocks)`, and what PyTorch must know of it.

Every query block, or each decoding query, reads the blocks of keys that a selector (`selectors`)
chose for it. Heads that share a key head may share a choice. Windows and anchors by groups of heads
(`api.sparse_attention`) are ranges of keys to the same operator (`pattern`).

On the CPU our compiled `kernel` computes it, on a GPU Triton (`triton_kernels`), or FlexAttention
under a block mask (`flex`); `portable` is the same by PyTorch's own calls.

The operator is `torch.ops.assay.attention` to PyTorch: it is compiled, exported and vectorised as a
whole. Its logsumexp is differentiable, too: attention to parts of the keys is put together by it.
"""

import math
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..kit.layout import like
from . import kernel, pattern, portable
from .pattern import Pattern, Scoring

Backend = Literal["auto", "kernel", "portable", "triton", "flex"]
F = TypeVar("F", bound=Callable[..., Any])
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def block_sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: Tensor | None,
    *,
    query_block: int = 1,
    key_block: int = 64,
    causal: bool = True,
    offset: int | None = None,
    window: int | None = None,
    key_range: Tensor | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    sinks: Tensor | None = None,
    backend: Backend = "auto",
) -> Tensor:
    r"""Attention of each query to chosen blocks of keys, differentiable once.

    Softmax and logsumexp run in float32 (float64 for float64 inputs); a query that sees no key has
    output 0. The definition is `oracle.masked_attention` under `oracle.block_mask`.

    Equation: $o_i = \frac{\sum_j M_{ij} e^{s_{ij}} v_j}{e^z + \sum_j M_{ij} e^{s_{ij}}}, \quad
    s_{ij} = \lambda\, q_i \cdot k_j, \quad M_{ij} = [\, \lfloor j / b_k \rfloor \in
    C_{\lfloor i / b_q \rfloor} \wedge j \le p_i \,]$

    Args:
        q: (batch, heads, n_q, d_head), float32, float64, bfloat16 or float16.
        k: (batch, kv_heads, n_k, d_head); `kv_heads` divides `heads`.
        v: as k.
        blocks: (batch or 1, heads that choose, ceil(n_q / query_block), most) integers, the blocks
            of keys that each query block reads, in any order; negative ones are none, others are
            counted once. The number of heads that choose divides `heads`, and it divides or is a
            multiple of `kv_heads`. None reads every key that the other arguments allow.
        query_block: consecutive queries that read the same blocks.
        key_block: consecutive keys of a block.
        causal: whether a query sees only keys up to its own position.
        offset: position of the first query among the keys; n_k - n_q if not given, so that the
            last query stands at the last key.
        window: the most keys back that a query sees, itself included; causal only.
        key_range: (batch, 2) integers, a sample's first key and one past its last: what stands
            outside is padding. Blocks are counted from the first key.
        scale: of the scores, 1 / sqrt(d_head) if not given.
        softcap: where not 0, scores s become softcap tanh(s / softcap).
        sinks: (heads,) one more score of each head, of a key without a value.
        backend: "auto" picks "triton" on CUDA, on the CPU "kernel" where it is built (in float32;
            half precision is cast), else "portable". "flex" is FlexAttention, for query and key
            blocks of 128, without sinks, softcap and a range that begins after key 0.

    Returns:
        (batch, heads, n_q, d_head) in q's dtype.

    Raises:
        InputError: if shapes, dtypes, devices, numbers of heads or options do not fit together.
    """
    check_inputs(q, k, v)
    _check_blocks(q, k, blocks, query_block, key_block)
    n_q, n_k = q.shape[2], k.shape[2]
    offset = n_k - n_q if offset is None else offset
    if window is not None and not (causal and window >= 1):
        raise InputError(f"window must be at least 1 and needs causal=True, not {window}")
    if sinks is not None and sinks.shape != (q.shape[1],):
        raise InputError(f"sinks must be ({q.shape[1]},), one a head, not {tuple(sinks.shape)}")
    if softcap < 0 or not math.isfinite(softcap):
        raise InputError(f"softcap must be positive, or 0 for none, not {softcap}")
    origins = _origins(key_range, q, n_k)
    options: dict[str, Any] = {"offset": offset, "window": window, "causal": causal}
    ranges = pattern.reach(n_q, n_k, **options, device=str(q.device))
    if key_range is not None:
        first = torch.maximum(ranges[:, :, 0], key_range[:, None, :1])
        end = torch.minimum(ranges[:, :, 1], key_range[:, None, 1:])
        ranges = torch.stack([first, torch.maximum(first, end)], dim=2).int()
    read = Pattern(ranges, (q.shape[1],), (1,))
    if blocks is not None:
        read = Pattern(*read[:3], pattern.ordered(blocks), origins, query_block, key_block)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return attend(q, k, v, read, Scoring(scale, float(softcap), sinks), backend)[0]


def attend(  # noqa: PLR0917 - as the operator
    q: Tensor, k: Tensor, v: Tensor, read: Pattern, scoring: Scoring, backend: str
) -> tuple[Tensor, Tensor]:
    r"""Output (batch, heads, n_q, d_head) and logsumexp (batch, heads, n_q) of a `Pattern`.

    Equation: $o_i = \sum_j e^{s_{ij} - L_i} v_j, \quad L_i = \log ( e^z + \sum_j e^{s_{ij}} )$

    Raises InputError for a backend that is unknown or does not fit.
    """
    if backend != "auto":  # which the operator itself resolves, out of a compiler's sight
        resolved(backend, q)
    if backend == "flex":
        from . import flex  # noqa: PLC0415 - starts the compiler

        return flex.attend(q, k, v, read, scoring)
    if not _recorded(q, k, v, scoring.sinks):  # the operator costs a decoded token a third more
        output: tuple[Tensor, Tensor] = _module(backend, q).forward(q, k, v, read, scoring)
        return output
    options = read.query_block, read.key_block, scoring.scale, scoring.cap, backend
    groups = read.ranges, read.blocks, read.origins, scoring.sinks, read.heads, read.strides
    out, lse = torch.ops.assay.attention(q, k, v, *groups, *options)
    return out, lse


def _recorded(*tensors: Tensor | None) -> bool:
    """Return whether autograd, a compiler or a transform of PyTorch must see the operator."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    trained = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    return trained or any(type(x) not in (Tensor, nn.Parameter, type(None)) for x in tensors)


def check_inputs(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise InputError where shapes, dtypes, devices or numbers of heads do not fit together."""
    if q.dim() != 4 or k.dim() != 4 or 0 in q.shape or 0 in k.shape:
        raise InputError(
            "q, k and v must be (batch, heads, n, d_head) without empty dimensions, not "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    if k.shape != v.shape or k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        given = f"{tuple(k.shape)} and {tuple(v.shape)} for q {tuple(q.shape)}"
        raise InputError(f"k and v must be alike and have q's batch and d_head, not {given}")
    if not q.dtype == k.dtype == v.dtype or q.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        given = f"{q.dtype}, {k.dtype}, {v.dtype}"
        raise InputError(f"q, k and v must share one dtype of {names}, not {given}")
    if not q.device == k.device == v.device:
        raise InputError(f"q, k and v are on {q.device}, {k.device} and {v.device}")
    if q.shape[1] % k.shape[1]:
        raise InputError(
            f"{q.shape[1]} query heads cannot share {k.shape[1]} key-value heads evenly"
        )


def _check_blocks(
    q: Tensor, k: Tensor, blocks: Tensor | None, query_block: int, key_block: int
) -> None:
    if query_block < 1 or key_block < 1:
        raise InputError(f"blocks need at least one token, not {query_block} and {key_block}")
    if blocks is None:
        return
    if blocks.dtype not in INTEGERS or blocks.device != q.device:
        raise InputError(f"blocks must be integers on {q.device}, not {blocks.dtype}")
    runs = -(-q.shape[2] // query_block)
    if blocks.dim() != 4 or blocks.shape[0] not in (1, q.shape[0]) or blocks.shape[2] != runs:
        expected = f"({q.shape[0]} or 1, heads that choose, {runs}, most)"
        raise InputError(f"blocks must be {expected}, not {tuple(blocks.shape)}")
    choosing, heads, shared = blocks.shape[1], q.shape[1], k.shape[1]
    if not choosing or heads % choosing or (choosing % shared and shared % choosing):
        raise InputError(
            f"{choosing} heads that choose do not fit {heads} heads and {shared} key-value heads"
        )


def _origins(key_range: Tensor | None, q: Tensor, n_k: int) -> Tensor | None:
    """First key of each sample, (batch,) int32; None where nothing is padded."""
    if key_range is None:
        return None
    if key_range.shape != (q.shape[0], 2) or key_range.dtype not in INTEGERS:
        given = f"{tuple(key_range.shape)} {key_range.dtype}"
        raise InputError(f"key_range must be ({q.shape[0]}, 2) integers, not {given}")
    if q.device.type == "cpu" and not torch.compiler.is_compiling():
        first, end = key_range.unbind(1)
        if bool(((first < 0) | (end > n_k) | (first > end)).any()):
            raise InputError(f"key_range must lie in 0 .. {n_k}, not {key_range.tolist()}")
    return key_range[:, 0].int().contiguous()


def has_triton(q: Tensor) -> bool:
    """True if our Triton kernels can attend from these queries (batch, heads, n, d)."""
    runs = q.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"  # Triton's own switch
    return runs and q.dtype != torch.float64 and find_spec("triton") is not None


def resolved(backend: str, q: Tensor) -> str:
    """The backend, for "auto" the one that it stands for. Raises InputError where it misfits."""
    if backend == "auto":
        if q.is_cuda and has_triton(q):
            return "triton"
        compiled = q.device.type == "cpu" and q.dtype != torch.float64 and kernel.loaded()
        return "kernel" if compiled else "portable"
    if backend not in get_args(Backend):
        raise InputError(f"backend must be one of {', '.join(get_args(Backend))}, not {backend!r}")
    given = f"q is {q.dtype} on {q.device}. 'portable' runs anywhere"
    if backend == "kernel" and resolved("auto", q) != "kernel":
        raise InputError(
            "backend 'kernel' needs the CPU, no float64, and to be built (python -m "
            f"methods.sparse_attention.build_kernel); {given}"
        )
    if backend == "triton" and not has_triton(q):
        raise InputError(
            "backend 'triton' needs the package triton, a CUDA device and float32, bfloat16 or "
            f"float16; {given}"
        )
    return backend


# --- The operator as PyTorch knows it ------------------------------------------------------------

# Beyond this |L| the kernels' P = exp(S - L) loses too many digits: in float32 a score of 2^14 is
# known to 0.1 %, one of 10^9 overflows. Then the softmax is taken anew instead.
LARGEST_LSE = 2.0**14


# Not `torch.library.custom_op`, which loads the compiler at the first call: it takes as long as to
# load torch, in each of a benchmark's processes.
_torch: Any = torch.library  # whose functions have no types
_LIBRARY = _torch.Library("assay", "FRAGMENT")


def _operator(function: F) -> F:
    """Register a function of tensors under its name in `torch.ops.assay`."""
    name = function.__name__
    _LIBRARY.define(name + _torch.infer_schema(function, mutates_args=()))
    _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    return function


@_operator
def attention(  # noqa: PLR0917 - operators take positions
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ranges: Tensor,
    blocks: Tensor | None,
    origins: Tensor | None,
    sinks: Tensor | None,
    heads: Sequence[int],
    strides: Sequence[int],
    query_block: int,
    key_block: int,
    scale: float,
    cap: float,
    backend: str,
) -> tuple[Tensor, Tensor]:
    r"""Output (batch, heads, n_q, d_head) and logsumexp (batch, heads, n_q) of a `Pattern`.

    Equation: $o_i = \frac{\sum_{j \in C_i} e^{s_{ij}} v_j}{e^z + \sum_{j \in C_i} e^{s_{ij}}}$
    """
    groups = ranges, tuple(heads), tuple(strides)
    read = Pattern(*groups, blocks, origins, query_block, key_block)
    scoring = Scoring(scale, cap, sinks)
    results: tuple[Tensor, Tensor] = _module(backend, q).forward(q, k, v, read, scoring)
    return results


def _module(backend: str, q: Tensor) -> Any:
    backend = resolved(backend, q)
    if backend == "triton":
        from . import triton_kernels  # noqa: PLC0415 - needs triton

        return triton_kernels
    return kernel if backend == "kernel" else portable


@_operator
def attention_backward(  # noqa: PLR0917
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ranges: Tensor,
    blocks: Tensor | None,
    origins: Tensor | None,
    sinks: Tensor | None,
    out: Tensor,
    lse: Tensor,
    grad: Tensor,
    grad_lse: Tensor | None,
    heads: Sequence[int],
    strides: Sequence[int],
    query_block: int,
    key_block: int,
    scale: float,
    cap: float,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""dQ, dK and dV, like q (batch, heads, n_q, d_head), k and v.

    Equation: $P = e^{S - L}, \quad dV = P^T dO, \quad dS = P \circ (dO V^T - dO \cdot O + dL),
    \quad dQ = \lambda\, dS K, \quad dK = \lambda\, dS^T Q$
    """
    groups = ranges, tuple(heads), tuple(strides)
    read = Pattern(*groups, blocks, origins, query_block, key_block)
    options: dict[str, Any] = {"saved": (out, lse), "grad": grad, "grad_lse": grad_lse}
    if lse.masked_fill(lse == -math.inf, 0).abs().max() > LARGEST_LSE:
        backend, options["saved"] = "portable", None
    scoring = Scoring(scale, cap, sinks)
    results: tuple[Tensor, Tensor, Tensor]
    results = _module(backend, q).backward(q, k, v, read, scoring, **options)
    return results


def _fake(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return like(q), q.new_empty(q.shape[:3], dtype=torch.promote_types(q.dtype, torch.float32))


def _fake_backward(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return like(q), like(k), like(v)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tensors, ctx.options = inputs[:7], inputs[7:]
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Any, ...]:
    *given, out, lse = ctx.saved_tensors
    results: list[Any] = [None] * 14
    if grad is None and grad_lse is None:
        return tuple(results)
    grad = torch.zeros_like(out) if grad is None else grad
    call = torch.ops.assay.attention_backward
    results[:3] = call(*given, out, lse, grad, grad_lse, *ctx.options)
    sinks = given[6]
    if sinks is not None and ctx.needs_input_grad[6]:
        # dz = sum_i e^(z - L_i) (dL_i - dO_i . O_i)
        share = torch.exp(sinks.to(lse.dtype)[:, None] - lse)
        products = (grad.to(lse.dtype) * out.to(lse.dtype)).sum(-1)
        rest = -products if grad_lse is None else grad_lse - products
        results[6] = (share * rest).sum((0, 2)).to(sinks.dtype)
    return tuple(results)


def _mapped(info: Any, dims: tuple[int | None, ...], *given: Any) -> tuple[Any, Any]:
    """Samples of the mapped dimension become samples of the batch."""
    q, k, v, ranges, blocks, origins, sinks, *options = given
    times = info.batch_size
    if dims[6] is not None:
        raise InputError("block_sparse_attention cannot be vectorised over sinks")

    def spread(x: Tensor, dim: int | None) -> Tensor:
        return x.movedim(dim, 0) if dim is not None else x.expand(times, *x.shape)

    q, k, v = (spread(x, dim).flatten(0, 1) for x, dim in zip((q, k, v), dims, strict=False))
    batch = q.shape[0] // times

    def by_sample(x: Tensor | None, dim: int | None) -> Tensor | None:
        if x is None:
            return None
        whole = spread(x, dim)
        return whole.expand(times, batch, *whole.shape[2:]).flatten(0, 1)

    groups = (by_sample(*pair) for pair in zip((ranges, blocks, origins), dims[3:6], strict=True))
    out, lse = torch.ops.assay.attention(q, k, v, *groups, sinks, *options)
    return (out.unflatten(0, (times, batch)), lse.unflatten(0, (times, batch))), (0, 0)


_torch.register_fake("assay::attention", _fake, lib=_LIBRARY)
_torch.register_fake("assay::attention_backward", _fake_backward, lib=_LIBRARY)
_torch.register_autograd("assay::attention", _gradients, setup_context=_save, lib=_LIBRARY)
_torch.register_vmap("assay::attention", _mapped, lib=_LIBRARY)

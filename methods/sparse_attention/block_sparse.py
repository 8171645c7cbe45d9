"""The operator on chosen blocks: `block_sparse_attention(q, k, v, blocks)`.

Every query block, or each decoding query, reads the blocks of keys that a selector (`selectors`)
chose for it. Heads that share a key head may share a choice. On the CPU the compiled kernel takes
the lists as it takes ranges; `gathered` does the same by public calls; on a GPU Triton takes the
lists (`triton_blocks`), or FlexAttention a block mask (`ops_gpu`).

The operator is `torch.ops.assay.chosen_attention` to PyTorch: it is compiled, exported and
vectorised as a whole.
"""

import math
from functools import lru_cache
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ..errors import InputError
from . import gathered, kernel
from .kernel import Chosen, Scoring

BlockBackend = Literal["auto", "kernel", "gathered", "triton", "flex"]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)
ALL_KEYS = 64  # keys to a block where nothing is chosen


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
    backend: BlockBackend = "auto",
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
            half precision is cast), else "gathered". "flex" is FlexAttention, for query and key
            blocks of 128, without sinks, softcap and a range that begins after key 0.

    Returns:
        (batch, heads, n_q, d_head) in q's dtype.

    Raises:
        InputError: if shapes, dtypes, devices, numbers of heads or options do not fit together.
    """
    _validate(q, k, v, blocks, query_block=query_block, key_block=key_block)
    n_q, n_k = q.shape[2], k.shape[2]
    offset = n_k - n_q if offset is None else offset
    if window is not None and not (causal and window >= 1):
        raise InputError(f"window must be at least 1 and needs causal=True, not {window}")
    if sinks is not None and sinks.shape != (q.shape[1],):
        raise InputError(f"sinks must be ({q.shape[1]},), one a head, not {tuple(sinks.shape)}")
    if softcap < 0 or not math.isfinite(softcap):
        raise InputError(f"softcap must be positive, or 0 for none, not {softcap}")
    origins = _check_range(key_range, q, n_k)
    _check_backend(backend, q)
    if blocks is None:
        query_block, key_block, origins = n_q, ALL_KEYS, None
        blocks = torch.arange(-(-n_k // ALL_KEYS), device=q.device)[None, None, None]
    ordered = _ordered(blocks)
    reach = offset, window, causal
    ranges = _ranges(n_q, n_k, reach, key_range, str(q.device))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if backend == "flex":
        from . import ops_gpu  # noqa: PLC0415 - starts the compiler

        if sinks is not None or softcap or origins is not None:
            raise InputError("backend 'flex' takes no sinks, softcap or key_range")
        chosen = Chosen(ordered, query_block, key_block)
        return ops_gpu.attend_blocks(q, k, v, chosen=chosen, ranges=ranges, scale=scale)
    call = torch.ops.assay.chosen_attention
    sizes = query_block, key_block, scale, float(softcap), backend
    out: Tensor = call(q, k, v, ranges, ordered, origins, sinks, *sizes)[0]
    return out


def _validate(
    q: Tensor, k: Tensor, v: Tensor, blocks: Tensor | None, *, query_block: int, key_block: int
) -> None:
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
    if query_block < 1 or key_block < 1:
        raise InputError(f"blocks need at least one token, not {query_block} and {key_block}")
    if blocks is None:
        return
    if blocks.dtype not in INTEGERS or blocks.device != q.device:
        raise InputError(f"blocks must be integers on {q.device}, not {blocks.dtype}")
    runs = -(-q.shape[2] // query_block)
    if blocks.dim() != 4 or blocks.shape[0] not in (1, q.shape[0]) or blocks.shape[2] != runs:
        wanted = f"({q.shape[0]} or 1, heads that choose, {runs}, most)"
        raise InputError(f"blocks must be {wanted}, not {tuple(blocks.shape)}")
    choosing, heads, shared = blocks.shape[1], q.shape[1], k.shape[1]
    if not choosing or heads % choosing or (choosing % shared and shared % choosing):
        raise InputError(
            f"{choosing} heads that choose do not fit {heads} heads and {shared} key-value heads"
        )


def _check_range(key_range: Tensor | None, q: Tensor, n_k: int) -> Tensor | None:
    """Where each sample's keys begin, (batch,) int32; None where nothing is padded."""
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


def _check_backend(backend: str, q: Tensor) -> None:
    if backend not in get_args(BlockBackend):
        known = ", ".join(get_args(BlockBackend))
        raise InputError(f"backend must be one of {known}, not {backend!r}")
    if backend == "kernel" and _resolved("auto", q) != "kernel":
        raise InputError(
            "backend 'kernel' needs the CPU, no float64, and to be built "
            f"(python -m methods.sparse_attention.build_kernel); q is {q.dtype} on {q.device}"
        )


def _resolved(backend: str, q: Tensor) -> str:
    """What "auto" is for these queries."""
    if backend != "auto":
        return backend
    if q.dtype == torch.float64:
        return "gathered"
    if q.is_cuda:
        return "triton"
    return "kernel" if q.device.type == "cpu" and kernel.loaded() else "gathered"


def _ordered(blocks: Tensor) -> Tensor:
    """Blocks in ascending order, int32, each once: a repeated one is -1."""
    if not blocks.shape[-1]:
        return blocks.new_full((*blocks.shape[:-1], 1), -1, dtype=torch.int32)
    ordered = blocks.int().sort(-1).values
    repeated = torch.zeros_like(ordered, dtype=torch.bool)
    repeated[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    return ordered.masked_fill(repeated, -1)


def _ranges(
    n_q: int, n_k: int, reach: tuple[int, int | None, bool], key_range: Tensor | None, device: str
) -> Tensor:
    """The first key that each query may see and one past the last, (batch or 1, 2, n_q) int32."""
    build = _unpadded.__wrapped__ if torch.compiler.is_compiling() else _unpadded
    found = build(n_q, n_k, reach, device)
    if key_range is None:
        return found
    first = torch.maximum(found[:, 0], key_range[:, :1])
    end = torch.minimum(found[:, 1], key_range[:, 1:])
    return torch.stack([first, torch.maximum(first, end)], dim=1).int()


@lru_cache(maxsize=32)
def _unpadded(n_q: int, n_k: int, reach: tuple[int, int | None, bool], device: str) -> Tensor:
    offset, window, causal = reach
    with torch.inference_mode(False):  # it is kept, and autograd refuses what that mode makes
        p = torch.arange(n_q, device=device) + offset
        first = torch.zeros_like(p) if window is None else (p - window + 1).clamp(0, n_k)
        end = (p + 1).clamp(0, n_k) if causal else torch.full_like(p, n_k)
        return torch.stack([first, end]).int()[None]


# --- The operator as PyTorch knows it ------------------------------------------------------------


@torch.library.custom_op("assay::chosen_attention", mutates_args=())
def chosen_attention(  # noqa: PLR0917 - operators take positions
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ranges: Tensor,
    blocks: Tensor,
    origins: Tensor | None,
    sinks: Tensor | None,
    query_block: int,
    key_block: int,
    scale: float,
    cap: float,
    backend: str,
) -> tuple[Tensor, Tensor]:
    r"""Output (batch, heads, n_q, d_head) and logsumexp (batch, heads, n_q) of ordered blocks.

    Equation: $o_i = \frac{\sum_{j \in C_i} e^{s_{ij}} v_j}{e^z + \sum_{j \in C_i} e^{s_{ij}}}$
    """
    chosen, scoring = Chosen(blocks, query_block, key_block, origins), Scoring(scale, cap)
    backend = _resolved(backend, q)
    if backend == "triton":
        from . import triton_blocks  # noqa: PLC0415 - needs triton

        return triton_blocks.forward(q, k, v, ranges, chosen=chosen, sinks=sinks, scoring=scoring)
    if backend == "gathered":
        options: Any = {"chosen": chosen, "sinks": sinks, "scoring": scoring}
        out, lse = gathered.forward(q, k, v, ranges, **options)
        return _like(q).copy_(out), lse
    queries, keys, values = (kernel.padded(x) for x in (q, k, v))
    out = _like(queries)
    lse = queries.new_empty(q.shape[:3])
    sinks = None if sinks is None else sinks.float().contiguous()
    chosen = chosen._replace(blocks=blocks.contiguous())
    given = queries, [keys], [values], [ranges.contiguous()]
    kernel.forward(*given, out=out, lse=lse, scoring=scoring, chosen=chosen, sinks=sinks)
    whole = out.shape == q.shape and q.dtype == torch.float32
    return out if whole else _like(q).copy_(out[..., : q.shape[3]]), lse


@torch.library.custom_op("assay::chosen_attention_backward", mutates_args=())
def chosen_attention_backward(  # noqa: PLR0917
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ranges: Tensor,
    blocks: Tensor,
    origins: Tensor | None,
    sinks: Tensor | None,
    out: Tensor,
    lse: Tensor,
    grad: Tensor,
    query_block: int,
    key_block: int,
    scale: float,
    cap: float,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""dQ, dK and dV, like q (batch, heads, n_q, d_head), k and v.

    Equation: $P = e^{S - L}, \quad dV = P^T dO, \quad dS = P \circ (dO V^T - dO \cdot O), \quad
    dQ = \lambda\, dS K, \quad dK = \lambda\, dS^T Q$
    """
    chosen, scoring = Chosen(blocks, query_block, key_block, origins), Scoring(scale, cap)
    backend = _resolved(backend, q)
    if backend == "triton":
        from . import triton_blocks  # noqa: PLC0415 - needs triton

        saved: Any = {"chosen": chosen, "saved": (out, lse), "grad": grad, "scoring": scoring}
        return triton_blocks.backward(q, k, v, ranges, **saved)
    # Beyond that the kernel's exp(S - L) loses too many digits.
    if backend == "gathered" or lse.masked_fill(lse == -math.inf, 0).abs().max() > 2.0**14:
        options: Any = {"chosen": chosen, "sinks": sinks, "scoring": scoring}
        return gathered.backward(q, k, v, ranges, grad=grad, **options)
    queries, keys, values, outs, grads = (kernel.padded(x) for x in (q, k, v, out, grad))
    dq = _like(queries)
    dk, dv = (_like(x).zero_() for x in (keys, values))
    chosen = chosen._replace(blocks=blocks.contiguous())
    kernel.backward(
        queries,
        [keys],
        [values],
        [ranges.contiguous()],
        saved=(outs, lse),
        grad=grads,
        into=(dq, [dk], [dv]),
        scoring=scoring,
        chosen=chosen,
    )
    d = q.shape[3]
    found = dq[..., :d].to(q.dtype), dk[..., :d].to(k.dtype), dv[..., :d].to(v.dtype)
    return found[0].contiguous(), found[1].contiguous(), found[2].contiguous()


def _like(x: Tensor) -> Tensor:
    """Empty (batch, heads, n, d), laid out so that the projection that follows needs no copy."""
    b, h, n, d = x.shape
    return x.new_empty(b, n, h, d).transpose(1, 2)


@chosen_attention.register_fake
def _(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(q.dtype, torch.float32)
    return _like(q), q.new_empty(q.shape[:3], dtype=dtype)


@chosen_attention_backward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tensors, ctx.sizes = inputs[:7], inputs[7:]
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    *given, out, lse = ctx.saved_tensors
    if grad is None:
        return (None,) * 12
    sinks, found = given[6], [None] * 12
    call = torch.ops.assay.chosen_attention_backward
    found[:3] = call(*given, out, lse, grad, *ctx.sizes)
    if sinks is not None and ctx.needs_input_grad[6]:
        # dz = -sum_i e^(z - L_i) dO_i . O_i
        share = torch.exp(sinks.to(lse.dtype)[:, None] - lse)
        products = (grad.to(lse.dtype) * out.to(lse.dtype)).sum(-1)
        found[6] = -(share * products).sum((0, 2)).to(sinks.dtype)
    return tuple(found)


chosen_attention.register_autograd(_gradients, setup_context=_save)


@chosen_attention.register_vmap
def _(info: Any, dims: tuple[int | None, ...], *given: Any) -> tuple[Any, Any]:
    """Samples of the mapped dimension become samples of the batch."""
    q, k, v, ranges, blocks, origins, sinks, *sizes = given
    times = info.batch_size
    if dims[6] is not None:
        raise InputError("block_sparse_attention cannot be vectorised over sinks")

    def spread(x: Tensor, dim: int | None) -> Tensor:
        return x.movedim(dim, 0) if dim is not None else x.expand(times, *x.shape)

    q, k, v = (spread(x, dim).flatten(0, 1) for x, dim in zip((q, k, v), dims, strict=False))
    batch = q.shape[0] // times

    def by_sample(x: Tensor, dim: int | None) -> Tensor:
        whole = spread(x, dim)
        return whole.expand(times, batch, *whole.shape[2:]).flatten(0, 1)

    ranges, blocks = by_sample(ranges, dims[3]), by_sample(blocks, dims[4])
    origins = None if origins is None else by_sample(origins, dims[5])
    out, lse = torch.ops.assay.chosen_attention(q, k, v, ranges, blocks, origins, sinks, *sizes)
    return (out.unflatten(0, (times, batch)), lse.unflatten(0, (times, batch))), (0, 0)

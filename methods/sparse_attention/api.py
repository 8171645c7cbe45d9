"""The operator: `sparse_attention(q, k, v, config)`, on any device, padded or not."""

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Literal, get_args

import torch
from torch import Tensor

from ..errors import InputError
from ..kit.compiling import uncompiled
from . import kernel, ops_cpu, ops_gpu
from .config import GlobalGroup, Group, SparseAttentionConfig, head_groups
from .oracle import oracle_attention

Backend = Literal["auto", "kernel", "cpu", "gpu", "triton", "portable", "reference"]
PaddingSide = Literal["right", "left"]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    config: SparseAttentionConfig,
    *,
    key_lengths: Tensor | None = None,
    padding_side: PaddingSide = "right",
    context: int | None = None,
    backend: Backend = "auto",
) -> Tensor:
    r"""Causal attention with sliding windows in some heads and strided anchors in the others.

    Softmax and logsumexp run in float32 (float64 for float64 inputs).

    Equation: $o_{hi} = \frac{\sum_j M^h_{ij} e^{s_{hij}} v_{gj}}{\sum_j M^h_{ij} e^{s_{hij}}},
    \quad s_{hij} = \frac{q_{hi} \cdot k_{gj}}{\sqrt{d}}, \quad g = \lfloor h H_{kv} / H \rfloor$

    M^h is the mask of head h's group (`oracle.group_mask`). Where anchors are pooled, a global
    head's j runs over their means in the place of the tokens at them.

    Args:
        q: (batch, heads, n, d_head), float32, float64, bfloat16 or float16.
        k: (batch, kv_heads, n, d_head); `kv_heads` divides `heads` (grouped-query attention).
        v: as k.
        config: the heads and what they see; its heads must add up to q's.
        key_lengths: (batch,) integers, the real tokens of each sample. Padding is never attended;
            its rows are 0 in the output, and nothing flows back into it.
        padding_side: where the padding stands. Positions count from a sample's first real token.
        context: the length that an adaptive window is resolved for; n if not given. Where lengths
            vary, give the model's, or a longer input changes what earlier tokens see.
        backend: "auto" picks "gpu" on CUDA, else "kernel" (our own, float32, where it is built),
            "cpu" (tiles by PyTorch's private flash kernel) or "portable" (public calls only).
            "triton" is our own kernel for a GPU, not yet measured on one; "reference" is the
            float64 definition.

    Returns:
        (batch, heads, n, d_head) in q's dtype.

    Raises:
        InputError: if shapes, dtypes, devices, head counts or lengths do not fit together.
    """
    key_lengths = validated(q, k, v, key_lengths, padding_side)
    _check_backend(backend, q)
    heads, n = q.shape[1], q.shape[2]
    context = n if context is None else context
    groups = head_groups(config, heads, context, k.shape[1])
    if key_lengths is not None:
        real = torch.arange(n, device=q.device) < key_lengths[:, None]  # (batch, n)
        if padding_side == "left":
            q, k, v = (shifted(x, key_lengths - n) for x in (q, k, v))
        # Zeros in the padding, so that not even an infinity there can reach a real token.
        q, k, v = (x.masked_fill(~real[:, None, :, None], 0.0) for x in (q, k, v))

    if backend == "reference":
        out = oracle_attention(q, k, v, config, context=context).to(q.dtype)
    else:
        sharing, picked = heads // k.shape[1], _pick(backend, q)
        if sharing > 1 and picked not in _shared(groups):
            k, v = k.repeat_interleave(sharing, 1), v.repeat_interleave(sharing, 1)
        out = _BACKENDS[picked](q, k, v, groups)

    if key_lengths is not None:
        out = out.masked_fill(~real[:, None, :, None], 0.0)
        if padding_side == "left":
            out = shifted(out, n - key_lengths)
    return out


def _triton(q: Tensor, k: Tensor, v: Tensor, groups: tuple[Group, ...]) -> Tensor:
    from . import ops_triton  # noqa: PLC0415 - needs triton

    return ops_triton.attend(q, k, v, groups)


_BACKENDS: dict[str, Callable[..., Tensor]] = {
    "kernel": partial(ops_cpu.attend, compiled=True),
    "cpu": ops_cpu.attend,
    "portable": ops_cpu.attend_portable,
    "gpu": ops_gpu.attend,
    "triton": _triton,
}


def _shared(groups: tuple[Group, ...]) -> tuple[str, ...]:
    """The backends that take fewer key-value heads than heads."""
    own = any(isinstance(group, GlobalGroup) and group.include_self for group in groups)
    return ("gpu", "triton") if own else ("gpu", "triton", "kernel")


@uncompiled
def _pick(backend: Backend, q: Tensor) -> str:
    if backend != "auto":
        return backend
    if q.is_cuda:
        return "gpu" if q.dtype != torch.float64 else "portable"
    if kernel.fits(q):
        return "kernel"
    return "cpu" if ops_cpu.HAS_FLASH and q.device.type == "cpu" else "portable"


def shifted(x: Tensor, by: Tensor) -> Tensor:
    r"""Move the rows of each sample in (batch, heads, n, d) towards the end, or the start if < 0.

    Equation: $y_{bhi} = x_{b, h, i - m_b} \;\mathrm{if}\; 0 \le i - m_b < n, \;\mathrm{else}\; 0$

    m is `by` (batch,).
    """
    n = x.shape[2]
    source = torch.arange(n, device=x.device) - by[:, None]  # (batch, n)
    outside = ((source < 0) | (source >= n))[:, None, :, None]  # (batch, 1, n, 1)
    rows = source.clamp(0, n - 1)[:, None, :, None].expand_as(x)  # (batch, heads, n, d)
    return x.gather(2, rows).masked_fill(outside, 0.0)


def validated(
    q: Tensor, k: Tensor, v: Tensor, key_lengths: Tensor | None, padding_side: str
) -> Tensor | None:
    r"""Check what is about to be attended; the lengths (batch,) as int64 on q's device, if given.

    Equation: $0 \le l_b \le n$

    Raises:
        InputError: for shapes, dtypes, devices or lengths that do not fit together.
    """
    if q.dim() != 4 or k.dim() != 4 or 0 in q.shape:
        raise InputError(
            "q, k and v must be (batch, heads, n, d_head) without empty dimensions, not "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    wanted = (q.shape[0], k.shape[1], q.shape[2], q.shape[3])
    if tuple(k.shape) != wanted or tuple(v.shape) != wanted:
        given = f"{tuple(k.shape)} and {tuple(v.shape)} for q {tuple(q.shape)}"
        raise InputError(f"k and v must both have q's batch, length and d_head, not {given}")
    if not q.dtype == k.dtype == v.dtype or q.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        given = f"{q.dtype}, {k.dtype}, {v.dtype}"
        raise InputError(f"q, k and v must share one dtype of {names}, not {given}")
    if not q.device == k.device == v.device:
        raise InputError(f"q, k and v are on {q.device}, {k.device} and {v.device}")
    if padding_side not in get_args(PaddingSide):
        raise InputError(f"padding_side must be 'right' or 'left', not {padding_side!r}")
    if key_lengths is None:
        return None
    if key_lengths.shape != q.shape[:1] or key_lengths.dtype not in INTEGERS:
        given = f"{tuple(key_lengths.shape)} {key_lengths.dtype}"
        raise InputError(f"key_lengths must be ({q.shape[0]},) integers, not {given}")
    if bool((key_lengths < 0).any()) or bool((key_lengths > q.shape[2]).any()):
        raise InputError(f"key_lengths must lie in 0 .. {q.shape[2]}, not {key_lengths.tolist()}")
    return key_lengths.to(q.device, torch.long)


def has_triton(q: Tensor) -> bool:
    """Whether our Triton kernel can attend from these queries (batch, heads, n, d)."""
    runs = q.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"  # Triton's own switch
    return runs and q.dtype != torch.float64 and find_spec("triton") is not None


def _check_backend(backend: str, q: Tensor) -> None:
    if backend not in get_args(Backend):
        raise InputError(f"backend must be one of {', '.join(get_args(Backend))}, not {backend!r}")
    if backend == "cpu" and (q.device.type != "cpu" or not ops_cpu.HAS_FLASH):
        raise InputError(
            f"backend 'cpu' needs CPU tensors and PyTorch's CPU flash kernel; q is on {q.device}. "
            "'portable' runs anywhere"
        )
    if backend == "triton" and not has_triton(q):
        raise InputError(
            "backend 'triton' needs the package triton, a CUDA device and float32, bfloat16 or "
            f"float16; q is {q.dtype} on {q.device}. 'portable' runs anywhere"
        )
    if backend == "kernel" and not kernel.fits(q):
        raise InputError(
            f"backend 'kernel' needs float32 on the CPU, d_head a multiple of {kernel.MULTIPLE}, "
            "and to be built (python -m methods.sparse_attention.build_kernel); "
            f"q is {q.dtype}, {tuple(q.shape)} on {q.device}. 'portable' runs anywhere"
        )

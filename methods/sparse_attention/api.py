"""The operator: `sparse_attention(q, k, v, config)`, on any device, padded or not."""

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor

from methods.errors import InputError
from methods.sparse_attention import kernel, ops_cpu, ops_gpu
from methods.sparse_attention.config import SparseAttentionConfig, head_groups
from methods.sparse_attention.oracle import oracle_attention

Backend = Literal["auto", "kernel", "cpu", "gpu", "portable", "reference"]
PaddingSide = Literal["right", "left"]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


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
            "cpu" (tiles by PyTorch's private flash kernel) or "portable" (public calls only);
            "reference" is the float64 definition.

    Returns:
        (batch, heads, n, d_head) in q's dtype.

    Raises:
        InputError: if shapes, dtypes, devices, head counts or lengths do not fit together.
    """
    _validate(q, k, v, padding_side, backend)
    heads, n = q.shape[1], q.shape[2]
    groups = head_groups(config, heads, context or n, k.shape[1])
    if key_lengths is not None:
        key_lengths = validated_lengths(key_lengths, q)
        real = torch.arange(n, device=q.device) < key_lengths[:, None]  # (batch, n)
        if padding_side == "left":
            q, k, v = (left_to_right(x, key_lengths) for x in (q, k, v))
        # Zeros in the padding, so that not even an infinity there can reach a real token.
        q, k, v = (x.masked_fill(~real[:, None, :, None], 0.0) for x in (q, k, v))

    if backend == "reference":
        out = oracle_attention(q, k, v, config, context=context or n).to(q.dtype)
    else:
        sharing, picked = heads // k.shape[1], _pick(backend, q)
        if sharing > 1 and picked != "gpu":
            k, v = k.repeat_interleave(sharing, 1), v.repeat_interleave(sharing, 1)
        out = _BACKENDS[picked](q, k, v, groups)

    if key_lengths is not None:
        out = out.masked_fill(~real[:, None, :, None], 0.0)
        if padding_side == "left":
            out = right_to_left(out, key_lengths)
    return out


_BACKENDS: dict[str, Callable[..., Tensor]] = {
    "kernel": partial(ops_cpu.attend, compiled=True),
    "cpu": ops_cpu.attend,
    "portable": ops_cpu.attend_portable,
    "gpu": ops_gpu.attend,
}


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _pick(backend: Backend, q: Tensor) -> str:
    if backend != "auto":
        return backend
    if q.is_cuda:
        return "gpu" if q.dtype != torch.float64 else "portable"
    if kernel.fits(q):
        return "kernel"
    return "cpu" if ops_cpu.HAS_FLASH and q.device.type == "cpu" else "portable"


def left_to_right(x: Tensor, lengths: Tensor) -> Tensor:
    r"""Move each sample's last `length` rows of (batch, heads, n, d) to the front.

    Equation: $y_{bhi} = x_{b, h, \min(i + n - l_b, n - 1)}$

    `lengths` l is (batch,); the rows behind the first l_b repeat the last.
    """
    n = x.shape[2]
    source = torch.arange(n, device=x.device) + (n - lengths)[:, None]  # (batch, n)
    return x.gather(2, source.clamp(max=n - 1)[:, None, :, None].expand_as(x))


def right_to_left(x: Tensor, lengths: Tensor) -> Tensor:
    r"""Move each sample's first `length` rows of (batch, heads, n, d) to the end, 0 in front.

    Equation: $y_{bhi} = [\, i \ge n - l_b \,]\, x_{b, h, i - n + l_b}$
    """
    n = x.shape[2]
    source = torch.arange(n, device=x.device) - (n - lengths)[:, None]  # (batch, n)
    moved = x.gather(2, source.clamp(min=0)[:, None, :, None].expand_as(x))
    return moved.masked_fill((source < 0)[:, None, :, None], 0.0)


def _validate(q: Tensor, k: Tensor, v: Tensor, padding_side: str, backend: str) -> None:
    if q.dim() != 4 or k.dim() != 4 or 0 in q.shape:
        raise InputError(
            "q, k and v must be (batch, heads, n, d_head) without empty dimensions, not "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    wanted = (q.shape[0], k.shape[1], q.shape[2], q.shape[3])
    if tuple(k.shape) != wanted or tuple(v.shape) != wanted:
        raise InputError(
            f"for q {tuple(q.shape)}, k and v must both be "
            f"({wanted[0]}, kv_heads, {wanted[2]}, {wanted[3]}), not {tuple(k.shape)} and "
            f"{tuple(v.shape)}"
        )
    if not q.dtype == k.dtype == v.dtype or q.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        given = f"{q.dtype}, {k.dtype}, {v.dtype}"
        raise InputError(f"q, k and v must share one dtype of {names}, not {given}")
    if not q.device == k.device == v.device:
        raise InputError(f"q, k and v are on {q.device}, {k.device} and {v.device}")
    if padding_side not in get_args(PaddingSide):
        raise InputError(f"padding_side must be 'right' or 'left', not {padding_side!r}")
    if backend not in get_args(Backend):
        raise InputError(f"backend must be one of {', '.join(get_args(Backend))}, not {backend!r}")
    if backend == "cpu" and (q.device.type != "cpu" or not ops_cpu.HAS_FLASH):
        raise InputError(
            f"backend 'cpu' needs CPU tensors and PyTorch's CPU flash kernel; q is on {q.device}. "
            "'portable' runs anywhere"
        )
    if backend == "kernel" and not kernel.fits(q):
        raise InputError(
            "backend 'kernel' needs float32 on the CPU, a d_head that is a multiple of "
            f"{kernel.MULTIPLE} and to be built (python -m methods.sparse_attention.build_kernel); "
            f"q is {q.dtype}, {tuple(q.shape)} on {q.device}. 'portable' runs anywhere"
        )


def validated_lengths(lengths: Tensor, q: Tensor) -> Tensor:
    r"""How many tokens of each sample of q (batch, heads, n, d) are real, checked: (batch,).

    Equation: $0 \le l_b \le n$

    Raises:
        InputError: for other numbers, or another number of them.
    """
    if lengths.shape != q.shape[:1] or lengths.is_floating_point() or lengths.is_complex():
        given = f"{tuple(lengths.shape)} {lengths.dtype}"
        raise InputError(f"key_lengths must be ({q.shape[0]},) integers, not {given}")
    if bool((lengths < 0).any()) or bool((lengths > q.shape[2]).any()):
        raise InputError(f"key_lengths must lie in 0 .. {q.shape[2]}, not {lengths.tolist()}")
    return lengths.to(q.device, torch.long)

"""The compiled CPU kernel (`kernel.cpp`): every head and tile of a call in one parallel region.

`build_kernel` builds it. Without it `ops_cpu` runs each tile in PyTorch's kernel.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from .build_kernel import place
from .config import GlobalGroup, Group

MULTIPLE = 16  # of d_head: two vectors


@lru_cache(maxsize=1)
def loaded() -> bool:
    """Whether this process has the kernel; it never builds it."""
    try:
        torch.ops.load_library(place())  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError):  # not built, or for libraries that have been removed since
        return False
    return True


def fits(q: Tensor) -> bool:
    """Whether the kernel can attend from these queries (batch, heads, n, d)."""
    simple = q.device.type == "cpu" and q.dtype == torch.float32 and q.shape[-1] % MULTIPLE == 0
    return simple and loaded()


@lru_cache(maxsize=32)
def ranges(group: Group, n: int) -> Tensor:
    r"""The keys that each query sees, (2, n) int32: the first, and one past the last.

    Equation: $a_i = \max(0, (\lfloor i / b \rfloor - \lceil w / b \rceil + 1) b), \quad e_i = i + 1
    \;\mathrm{in\ a\ local\ group}$
    Equation: $a_i = 0, \quad e_i = \lfloor i / s \rfloor + 1 \;\mathrm{of\ the\ anchors\ in\ a\
    global\ one}$
    """
    i = torch.arange(n, device="cpu")  # cached, so independent of the default device
    if isinstance(group, GlobalGroup):
        return torch.stack([torch.zeros_like(i), i // group.stride + 1]).int()
    first = (i // group.block - math.ceil(group.window / group.block) + 1) * group.block
    return torch.stack([first.clamp(min=0), i + 1]).int()

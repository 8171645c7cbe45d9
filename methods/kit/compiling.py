"""What `torch.compile` must leave as it is."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """As `torch.compiler.disable`, but loads the compiler only where something is compiled.

    To load it takes as long as to load torch, in each of a benchmark's processes.
    """

    disabled: Callable[P, T] | None = None

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal disabled
        if disabled is None and "torch._dynamo" in sys.modules:
            disabled = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
        return (disabled or function)(*args, **kwargs)

    return call

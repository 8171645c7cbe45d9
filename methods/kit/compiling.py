"""What `torch.compile` must leave as it is."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")
# Not functools.cache: the compiler would warn that it traces what this wraps.
_known: dict[Callable[..., Any], Callable[..., Any]] = {}


def uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """As `torch.compiler.disable`, but loads the compiler only where something is compiled.

    To load it takes as long as to load torch, in each of a benchmark's processes.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        called = _disabled(function) if "torch._dynamo" in sys.modules else function
        return called(*args, **kwargs)

    return call


def _disabled(function: Callable[..., Any]) -> Callable[..., Any]:
    if function not in _known:
        _known[function] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return _known[function]

"""Watching layers at work: what each attended to, how long it takes, what memory a step needs."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor, nn

from ..measure import memory
from ..measure.clock import elapsed, synchronise
from .module import SparseAttention
from .probes import Intermediate


def measure_step(call: Callable[[], object], device: str = "cpu") -> tuple[float, int]:
    """Wall-clock seconds of a call, and its peak memory in bytes.

    It is called twice, since recording memory would slow the timed call.
    """
    return elapsed(call, device), memory.peak(call, device)


@dataclass
class Watched:
    """What was recorded of a layer."""

    seconds: list[float] = field(default_factory=list)  # of each forward call
    last: Intermediate | None = None


@contextmanager
def watch(model: nn.Module) -> Iterator[dict[str, Watched]]:
    """Time every call of every sparse layer inside the `with` block, and keep what the last saw."""
    modules = model.named_modules()
    layers = {name: part for name, part in modules if isinstance(part, SparseAttention)}
    watched = {name: Watched() for name in layers}
    begun: dict[str, float] = {}

    def before(name: str, layer: SparseAttention, *_: object) -> None:
        synchronise(next(layer.parameters()).device)
        begun[name] = time.perf_counter()

    def after(name: str, layer: SparseAttention, args: tuple[Tensor, ...], _: object) -> None:
        synchronise(next(layer.parameters()).device)
        watched[name].seconds.append(time.perf_counter() - begun.pop(name))
        watched[name].last = layer.describe(args[0].shape[1])

    with ExitStack() as hooks:
        for name, layer in layers.items():
            hooks.enter_context(layer.register_forward_pre_hook(partial(before, name)))
            hooks.enter_context(layer.register_forward_hook(partial(after, name)))
        yield watched

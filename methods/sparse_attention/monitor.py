"""Monitors of attention layers: time of each call, last pattern, memory of a step."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from ..measure import memory
from ..measure.clock import elapsed, synchronise
from .config import SparseAttentionConfig
from .module import Intermediate, SparseAttention


def measure_step(call: Callable[[], object], device: str = "cpu") -> tuple[float, int]:
    """Wall-clock seconds of a call, and its peak memory in bytes.

    It is called twice, since recording memory would slow the timed call.
    """
    return elapsed(call, device), memory.peak(call, device)


@dataclass
class Watched:
    """Record of a layer; `last` is None for a layer without grouped heads."""

    seconds: list[float] = field(default_factory=list)  # of each forward call
    last: Intermediate | None = None


@contextmanager
def watch(model: nn.Module) -> Iterator[dict[str, Watched]]:
    """Record every attention layer inside the `with` block, ours and those of transformers."""
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if type(layer).__name__.endswith("Attention")
    }
    watched = {name: Watched() for name in layers}
    started: dict[str, float] = {}

    def before(name: str, layer: nn.Module, *_: object) -> None:
        synchronise(next(layer.parameters()).device)
        started[name] = time.perf_counter()

    def after(name: str, layer: nn.Module, _: object, output: Any) -> None:
        synchronise(next(layer.parameters()).device)
        watched[name].seconds.append(time.perf_counter() - started.pop(name))
        watched[name].last = _described(layer, output[0].shape[1])

    with ExitStack() as hooks:
        for name, layer in layers.items():
            hooks.enter_context(layer.register_forward_pre_hook(partial(before, name)))
            hooks.enter_context(layer.register_forward_hook(partial(after, name)))
        yield watched


def _described(layer: Any, n: int) -> Intermediate | None:
    if isinstance(layer, SparseAttention):
        return Intermediate(layer.config, n, layer.context)
    from .hugging_face import selector_of  # noqa: PLC0415 - transformers is slow to import

    config = selector_of(layer.config) if hasattr(layer, "config") else None
    if not isinstance(config, SparseAttentionConfig):
        return None
    return Intermediate(config, n, layer.config.max_position_embeddings)

"""Watching layers at work: what each attended to, how long it takes, what memory a step needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from methods.measure import memory
from methods.sparse_attention.module import SparseAttention
from methods.sparse_attention.probes import Intermediate


def synchronise(device: torch.device | str) -> None:
    """Wait for the device, or a time would be that of the launch."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


@dataclass(frozen=True)
class Step:
    """One call: wall-clock seconds, and bytes it needed at its worst moment."""

    seconds: float
    peak_bytes: int


def measure_step(call: Callable[[], object], device: str = "cpu") -> Step:
    """Time one call, then repeat it for its peak memory (recording memory would slow the first)."""
    synchronise(device)
    begin = time.perf_counter()
    call()
    synchronise(device)
    seconds = time.perf_counter() - begin
    return Step(seconds, memory.peak(call, device))


@contextmanager
def layer_times(model: nn.Module) -> Iterator[dict[str, list[float]]]:
    """Seconds of every forward call of every sparse layer inside the `with` block, by layer."""
    times: dict[str, list[float]] = {}
    begun: dict[nn.Module, float] = {}
    hooks = []

    def before(layer: nn.Module, _: object) -> None:
        synchronise(next(layer.parameters()).device)
        begun[layer] = time.perf_counter()

    for name, layer in model.named_modules():
        if isinstance(layer, SparseAttention):
            times[name] = []

            def after(layer: nn.Module, _: object, __: object, name: str = name) -> None:
                synchronise(next(layer.parameters()).device)
                times[name].append(time.perf_counter() - begun.pop(layer))

            hooks += [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]
    try:
        yield times
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def capture(model: nn.Module) -> Iterator[dict[str, Intermediate]]:
    """Collect the last `Intermediate` of every sparse layer that runs inside the `with` block."""
    seen: dict[str, Intermediate] = {}
    hooks = []
    for name, layer in model.named_modules():
        if isinstance(layer, SparseAttention):

            def note(
                module: SparseAttention, args: tuple[Tensor, ...], _: object, name: str = name
            ) -> None:
                seen[name] = module.describe(args[0].shape[1])

            hooks.append(layer.register_forward_hook(note))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()

"""Watching layers at work: what each attended to, how long it takes, what memory a step needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

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
    times: dict[str, list[float]] = {name: [] for name, _ in _layers(model)}
    begun: dict[str, float] = {}

    def before(name: str, layer: SparseAttention, *_: object) -> None:
        synchronise(next(layer.parameters()).device)
        begun[name] = time.perf_counter()

    def after(name: str, layer: SparseAttention, *_: object) -> None:
        synchronise(next(layer.parameters()).device)
        times[name].append(time.perf_counter() - begun.pop(name))

    with ExitStack() as hooks:
        for name, layer in _layers(model):
            hooks.enter_context(layer.register_forward_pre_hook(partial(before, name)))
            hooks.enter_context(layer.register_forward_hook(partial(after, name)))
        yield times


@contextmanager
def capture(model: nn.Module) -> Iterator[dict[str, Intermediate]]:
    """Collect the last `Intermediate` of every sparse layer that runs inside the `with` block."""
    seen: dict[str, Intermediate] = {}

    def note(name: str, layer: SparseAttention, args: tuple[Tensor, ...], _: object) -> None:
        seen[name] = layer.describe(args[0].shape[1])

    with ExitStack() as hooks:
        for name, layer in _layers(model):
            hooks.enter_context(layer.register_forward_hook(partial(note, name)))
        yield seen


def _layers(model: nn.Module) -> list[tuple[str, SparseAttention]]:
    every = model.named_modules()
    return [(name, layer) for name, layer in every if isinstance(layer, SparseAttention)]

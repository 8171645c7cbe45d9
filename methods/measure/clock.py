"""Duration of one call, where no comparison of many is needed."""

import time
from collections.abc import Callable

import torch


def synchronise(device: torch.device | str) -> None:
    """Wait for the device, or a time would be that of the launch."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def elapsed(call: Callable[[], object], device: torch.device | str = "cpu") -> float:
    """Wall-clock seconds of a call."""
    synchronise(device)
    begin = time.perf_counter()
    call()
    synchronise(device)
    return time.perf_counter() - begin

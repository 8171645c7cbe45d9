"""Peak memory of a call, and whether a run will fit before anything is allocated.

On the CPU the peak is that of torch's own allocator, event by event as the profiler records them:
exact to the byte, scratch buffers inside operators included, and independent of what the process
did before. Not seen: memory that does not pass through that allocator (oneDNN's private scratch,
numpy, Python objects), and that a tensor from before the call was freed in it: measure forward and
backward in one call. On CUDA it is the caching allocator's peak of allocated bytes.
"""

import os
from collections.abc import Callable
from itertools import accumulate

import psutil
import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from ..errors import NotEnoughMemoryError
from . import control_groups

# The profiler writes its stages to standard error, through the progress bar, unless this is set
# before it first runs.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def peak(call: Callable[[], object], device: str = "cpu") -> int:
    """Return the bytes that ``call`` needs at its worst moment above what was allocated before it.

    What the call returns is counted while it lives. Run it once before if it compiles or caches.
    """
    if device == "cpu":
        return _cpu_peak(call)
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    call()
    torch.cuda.synchronize(device)
    return int(torch.cuda.max_memory_allocated(device)) - int(before)


def _cpu_peak(call: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = call()
    del result
    inner = profiler.profiler
    if inner is None or inner.kineto_results is None:
        raise RuntimeError("torch's profiler recorded nothing: the peak is unknown")
    events = [
        event
        for event in inner.kineto_results.events()
        if event.name() == "[memory]" and event.device_type() == DeviceType.CPU
    ]
    events.sort(key=lambda event: event.start_ns())
    return int(max(accumulate((event.nbytes() for event in events), initial=0)))


def available(device: str = "cpu") -> int:
    """Return the bytes that can still be allocated on the GPU, or here within every limit."""
    if device != "cpu":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    free = int(psutil.virtual_memory().available)
    limited = control_groups.free_memory()
    return free if limited is None else min(free, limited)


def require(needed: int, device: str = "cpu") -> None:
    """Refuse before allocating: raises NotEnoughMemoryError unless ``needed`` bytes are free."""
    free = available(device)
    if needed > free:
        raise NotEnoughMemoryError(needed, free, device)

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
from .environment import control_group

# The profiler writes its stages to standard error, through the progress bar, unless this is set
# before it first runs.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def peak(call: Callable[[], object], device: str = "cpu") -> int:
    """Bytes that ``call`` needs at its worst moment above what was allocated before it.

    What the call returns is counted while it lives. Run it once before if it compiles or caches.
    """
    if device == "cpu":
        return _cpu_peak(call)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated()) - int(before)


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
    """Bytes that can still be allocated: the machine's and the container's limit, or the GPU's."""
    if device != "cpu":
        free, _ = torch.cuda.mem_get_info()
        return int(free)
    free = int(psutil.virtual_memory().available)
    for limit, used in (  # of version 2, and of version 1
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        room = control_group(limit)
        if room is not None:
            free = min(free, max(0, room - (control_group(used) or 0)))
    return free


def require(needed: int, device: str = "cpu") -> None:
    """Refuse before allocating: raises NotEnoughMemoryError unless ``needed`` bytes are free."""
    free = available(device)
    if needed > free:
        raise NotEnoughMemoryError(needed, free, device)

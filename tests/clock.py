"""Processor time, of which a busy or virtual machine's own share is no fault of the code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import _lru_cache_wrapper


def forget_texts() -> None:
    """Empty the site's bounded caches, which hold what was read of a text."""
    for name, module in sys.modules.copy().items():
        if name.startswith("webapp."):
            for value in vars(module).values():
                if isinstance(value, _lru_cache_wrapper) and value.cache_parameters()["maxsize"]:
                    value.cache_clear()


def processor_seconds(call: Callable[[], object], within: float) -> float:
    """The shortest of three calls, or the first of them that ends `within` these seconds."""
    shortest = float("inf")
    for _ in range(3):
        forget_texts()
        began = time.process_time()
        call()
        shortest = min(shortest, time.process_time() - began)
        if shortest < within:
            break
    return shortest


def ends_within(seconds: float, call: Callable[..., object], *arguments: object) -> bool:
    """Tell that one call of three takes less than this much processor time."""
    return processor_seconds(lambda: call(*arguments), seconds) < seconds

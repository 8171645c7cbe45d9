"""Threads of torch: small models train faster with one."""

from collections.abc import Callable, Iterator
from functools import wraps

import torch

from ..spec import Case

Check = Callable[[str], Iterator[Case]]


def one_thread(check: Check) -> Check:
    """Run a check with one thread: on small matrices others only spin and wait."""

    @wraps(check)
    def checked(device: str) -> Iterator[Case]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield from check(device)
        finally:
            torch.set_num_threads(before)

    return checked

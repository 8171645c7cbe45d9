"""Random numbers that depend on a seed and on nothing that ran before."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Inside the block torch draws from `seed`; afterwards its generators are as they were."""
    device = torch.device(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        # For a GPU that has not started torch.manual_seed would note the seed with the stack of its
        # caller, which takes a tenth of the time of a small model's training.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.manual_seed_all(seed)
        yield


def generator(seed: int) -> torch.Generator:
    """A generator of its own, on the CPU: the same numbers whatever the device."""
    return torch.Generator().manual_seed(seed)


def randn(
    *shape: int, seed: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Tensor:
    """Standard normal numbers of `shape`, drawn on the CPU, so the same on every device."""
    return torch.randn(*shape, generator=generator(seed)).to(device, dtype)

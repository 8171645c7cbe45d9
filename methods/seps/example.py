"""The method on a handful of random patches and words: what `read` runs to show its shapes."""

from typing import Any

import torch

from methods.seps.config import SepsConfig, mended
from methods.seps.model import Seps, Texts


def main() -> None:
    """A training step of ours and of open_source, then a search: 3 captions and images, then 2."""
    images, captions, words, more = 3, 3, 5, 8
    size: dict[str, Any] = {"dim": 32, "patches": 16, "aggregate": 0.5}
    patches = torch.randn(images, 17, 32)  # (images, 1 + 16, 32)
    sparse = Texts(torch.randn(captions, words, 32), _lengths(captions, words))
    dense = Texts(torch.randn(captions, more, 32), _lengths(captions, more))
    for config in (mended(**size), SepsConfig(**size, variant="open_source")):
        model = Seps(config).train()
        output = model(patches, sparse, dense)
        align, ratio = model.losses(output)
        torch.autograd.backward(align + ratio)
        model.eval()
        found = model.all_pairs(patches[:2], sparse, dense)  # (captions, 2)
        found.argmax(1)


def _lengths(captions: int, words: int) -> torch.Tensor:
    lengths = words - torch.arange(captions) % 3  # (captions,)
    return torch.arange(words) < lengths[:, None]  # (captions, words)

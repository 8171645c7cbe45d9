"""The method on a handful of random patches and words: what `read` runs to show its shapes."""

from typing import Any

import torch

from .checks import inputs
from .config import SepsConfig, mended
from .model import Seps


def main() -> None:
    """A training step of ours and of open_source, then a search: 3 captions and images, then 2."""
    size: dict[str, Any] = {"dim": 32, "patches": 16, "aggregate": 0.5}
    for config in (mended(**size), SepsConfig(**size, variant="open_source")):
        model = Seps(config).train()
        given = inputs("cpu", config, batch=3, exact=False)
        output = model(**given)
        align, ratio = model.losses(output)
        torch.autograd.backward(align + ratio)
        model.eval()
        found = model.all_pairs(**given | {"patches": given["patches"][:2]})  # (3, 2)
        found.argmax(1)

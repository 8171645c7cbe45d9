"""The method on a handful of random patches and words: what `read` runs to show its shapes."""

import torch

from . import checks
from .train import alignment_loss, ratio_loss


def main() -> None:
    """A training step of ours and of open_source, then a search: 3 captions and images, then 2."""
    for name in ("mended", "open_source"):
        config = checks.VARIANTS[name]
        model = checks.example("cpu", config, exact=False).train()
        given = checks.inputs("cpu", config, batch=3, exact=False)
        output = model(**given)
        align = alignment_loss(output.similarity, config.margin)
        torch.autograd.backward(align + ratio_loss(output.masks, config.keep))
        search = model.eval().all_pairs(**given | {"patches": given["patches"][:2]})  # (3, 2)
        search.argmax(1)

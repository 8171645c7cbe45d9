"""What the source's schedule saves on LLaVA-1.5-7B, counted from the tokens of each layer."""

from __future__ import annotations

from methods.spec import Count
from methods.token_pruning.accounting import LLAVA_7B, prefill_flops, token_counts, vision_flops
from methods.token_pruning.config import PruningConfig

TEXT = 100  # tokens of text beside the image
_WHOLE = LLAVA_7B.visual + TEXT


def _read() -> list[int]:
    return token_counts(PruningConfig(), LLAVA_7B.layers, LLAVA_7B.visual, TEXT)


def tokens() -> Count:
    """The share of the tokens that the layers no longer read, on average and in the last."""
    read = _read()
    saved = 100 * (1 - sum(read) / (len(read) * _WHOLE))
    last = 100 * (1 - read[-1] / _WHOLE)
    steps = " -> ".join(str(count) for count in dict.fromkeys([_WHOLE, *read]))
    return Count(
        low=saved,
        high=saved,
        working=f"{steps}: {saved:.1f} % saved on average over the layers, {last:.1f} % in the "
        "last layer alone",
    )


def operations() -> Count:
    """The share of a prompt's operations that is saved, without and with the vision tower."""
    dense = prefill_flops(LLAVA_7B, [_WHOLE] * LLAVA_7B.layers)
    pruned = prefill_flops(LLAVA_7B, _read())
    tower = vision_flops(LLAVA_7B)
    saved = 100 * (1 - pruned / dense)
    return Count(
        low=saved,
        high=saved,
        working=f"{saved:.1f} % saved, {dense / pruned:.2f} times fewer; "
        f"{(dense + tower) / (pruned + tower):.2f} times with the vision tower",
    )

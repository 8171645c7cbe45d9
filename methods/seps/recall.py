"""What a search found: recall at 1, 5 and 10 both ways, of any number of captions an image."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError


@dataclass(frozen=True)
class Recall:
    """Percent of queries whose counterpart is among the first 1, 5 and 10."""

    to_text: tuple[float, ...]
    to_image: tuple[float, ...]

    @property
    def total(self) -> float:
        """rSum: all six, 600 at best."""
        return sum(self.to_text) + sum(self.to_image)


def recall(S: Tensor, owners: Tensor | None = None) -> Recall:
    r"""R@1, 5, 10 both ways from similarities (n, m), captions by images.

    `owners` (n,) says whose image a caption is of, as five are in Flickr30K and COCO; without it
    the true pairs are the diagonal. An image has found its text with its best caption. A tie counts
    against the true pair, or a constant similarity would be perfect.

    Equation: $R@k = \frac{100}{n} \sum_i [\operatorname{rank}_i \le k]$

    Raises:
        InputError: for similarities that are no numbers or, without owners, not square; owners that
            are no images; an image without a caption.
    """
    if S.ndim != 2 or not S.numel() or not bool(torch.isfinite(S).all()):
        raise InputError(f"similarities must be finite (captions, images), not {tuple(S.shape)}")
    n, m = S.shape
    if owners is None:
        if n != m:
            raise InputError(f"{n} captions for {m} images: say by `owners` whose each caption is")
        owners = torch.arange(n, device=S.device)
    if owners.shape != (n,) or sorted(set(owners.tolist())) != list(range(m)):
        raise InputError(f"owners give each of {n} captions one of {m} images, each image some")
    true = S.gather(1, owners[:, None])  # (n, 1)
    own = owners[:, None] == torch.arange(m, device=S.device)  # (n, m)

    def within(ranks: Tensor) -> tuple[float, ...]:
        return tuple(100 * float((ranks <= k).double().mean()) for k in (1, 5, 10))

    best = S.masked_fill(~own, -torch.inf).amax(0)  # (m,) of an image's own captions
    others = (best <= S) & ~own  # (n, m)
    return Recall(to_text=within(1 + others.sum(0)), to_image=within((true <= S).sum(1)))


def folds(S: Tensor, owners: Tensor, count: int = 5) -> Recall:
    r"""Recall averaged over `count` equal parts of the images, as COCO's 1K test is read.

    Equation: $R = \frac{1}{F} \sum_f R(S_f)$, S_f the f-th part's images with their captions

    Raises:
        InputError: when the images do not divide into so many parts.
    """
    m = S.shape[1]
    if count < 1 or m % count:
        raise InputError(f"{m} images do not divide into {count} folds")
    size, found = m // count, []
    for begin in range(0, m, size):
        rows = (owners >= begin) & (owners < begin + size)
        found.append(recall(S[rows, begin : begin + size], owners[rows] - begin))

    def mean(ways: list[tuple[float, ...]]) -> tuple[float, ...]:
        return tuple(sum(column) / count for column in zip(*ways, strict=True))

    return Recall(mean([one.to_text for one in found]), mean([one.to_image for one in found]))

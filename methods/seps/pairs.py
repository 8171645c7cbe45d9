"""Pairs of images and texts, as they are given and as they are compared.

T captions, B images, N patches, C width, J aggregated tokens, W words.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError


@dataclass(frozen=True)
class Batch:
    """Pairs of an image and a caption as encoders take them; `owners` (B,) says whose image a pair
    has, where several captions are of one.
    """

    images: Tensor  # (B, 3, side, side)
    sparse: Tensor  # (B, W) word ids
    dense: Tensor | None = None  # (B, W') word ids
    owners: Tensor | None = None

    def to(self, device: str) -> Self:
        """The same on another device."""
        moved = {n: None if t is None else t.to(device) for n, t in vars(self).items()}
        return replace(self, **moved)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Prepared:
    """A text as images are compared with it."""

    unit: Tensor  # (T, W, C) words of length 1, padding 0
    real: Tensor  # (T, W) bool
    mean: Tensor  # (T, 1, C), or (1, B, C) of a text that belongs to each image


@dataclass(frozen=True)
class Texts:
    """Words of captions, padded to one length.

    Raises:
        InputError: for shapes that disagree, a caption without a word, or NaN or infinity.
    """

    words: Tensor  # (T, W, C)
    real: Tensor  # (T, W) bool: False is padding

    def __post_init__(self) -> None:
        if self.words.ndim != 3 or self.real.shape != self.words.shape[:2]:
            given = f"words are {tuple(self.words.shape)}, their mask {tuple(self.real.shape)}"
            raise InputError(f"{given}; (captions, words, dim) and (captions, words) are needed")
        if self.real.dtype != torch.bool or not bool(self.real.any(1).all()):
            raise InputError("the mask of words must be boolean, with a word in every caption")
        if not bool(torch.isfinite(self.words[self.real]).all()):
            raise InputError("words hold NaN or infinity")

    def __getitem__(self, rows: slice | Tensor) -> Self:
        r"""Select captions by their indices i (n,). Equation: $t'_j = t_{i_j}$"""
        return type(self)(self.words[rows], self.real[rows])

    def prepared(self, *, by_image: bool = False) -> Prepared:
        r"""Unit words and their mean, computed once for all images.

        Padding may hold NaN, which would reach the gradient of every token that meets it: it is 0.
        The mean has no gradient; with `by_image` row b is image b's own text, for every caption.

        Equation 2: $\hat t_w = t_w / \lVert t_w \rVert, \quad E = \frac{1}{W} \sum_w t_w$
        """
        padding = ~self.real[..., None]  # (T, W, 1)
        unit = F.normalize(self.words, dim=-1).masked_fill(padding, 0.0)  # (T, W, C)
        total = self.words.detach().masked_fill(padding, 0.0).sum(1)  # (T, C)
        mean = total / self.real.sum(1)[:, None]  # (T, C)
        return Prepared(unit, self.real, mean[None] if by_image else mean[:, None])


@dataclass(frozen=True)
class Shares:
    """Weights of every patch in one branch, for every caption; T is 1 where all choose alike."""

    kept: Tensor  # (T, B, J, N), of the patches that stay in each aggregated token; over N 1
    dropped: Tensor  # (T, B, N), of the others in the extra token; over N 1, or 0 if none


@dataclass(frozen=True)
class Output:
    """Similarities of all pairs, with the patches that were chosen for them."""

    similarity: Tensor  # (T, B)
    masks: list[Tensor]  # (T, B, N) of each branch, open_source's first alone: 1 stays
    shares: list[Shares]  # of each branch

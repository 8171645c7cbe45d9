"""Images and captions made on the spot: objects with attributes and relations, on clutter.

A scene holds three objects on a 4 x 4 grid of cells, each of a size, a colour and a shape. Clutter
lies between them: noise, and fragments of the same colours. The sparse caption names two of the
objects and how they stand to each other; the dense one names all three and where they are. A scene
depends on the seed and its number alone.
"""

from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from methods.seps.model import Batch

SIDE, PATCH, CELL = 32, 4, 8  # pixels
GRID = SIDE // PATCH  # patches a side
OBJECTS = 3
SIZES = ("small", "large")
COLOURS = ("red", "green", "blue", "yellow", "purple", "cyan")
SHAPES = ("square", "disc", "triangle", "cross", "ring")
ROWS = ("top", "upper", "lower", "bottom")
COLUMNS = ("left", "inner-left", "inner-right", "right")
RELATIONS = ("left-of", "right-of", "above", "below")
VOCABULARY = ("<pad>", *SIZES, *COLOURS, *SHAPES, *ROWS, *COLUMNS, *RELATIONS, "at", "with")
IDS = {word: number for number, word in enumerate(VOCABULARY)}
PALETTE = torch.tensor(
    [[0.9, 0.1, 0.1], [0.1, 0.8, 0.1], [0.15, 0.2, 0.95], [0.9, 0.85, 0.1], [0.6, 0.1, 0.7],
     [0.1, 0.8, 0.85]]
)  # fmt: skip
SPARSE_WORDS, DENSE_WORDS = 7, 18  # at most
FRAGMENTS = 14  # patches of clutter in an object's colour


@dataclass(frozen=True)
class Scenes(Batch):
    """A batch of scenes with their captions.

    Images are (B, 3, 32, 32) in 0 .. 1, sparse captions (B, 7), dense ones (B, 18), of which 0 is
    padding; labels are size, colour and shape of each patch, the last class clutter.
    """

    labels: Tensor = field(kw_only=True)  # (B, 64, 3)


@cache
def stencils() -> Tensor:
    r"""Where each shape of each size is inked: (2, 5, 8, 8) bool.

    In the order of `SHAPES`, x and y from the middle of the cell, r of each size; triangle and
    cross lie within the square.

    Equation: $\max(|x|, |y|) < r, \quad x^2 + y^2 < r^2, \quad |x| < \frac{y + r}{2} + 0.3, \quad
    \min(|x|, |y|) < \frac{r}{3} + 0.3, \quad \frac{r}{2} < \sqrt{x^2 + y^2} < r$
    """
    y, x = torch.meshgrid(*[torch.arange(CELL) - (CELL - 1) / 2] * 2, indexing="ij")
    found = []
    for half in (2.6, 4.0):
        inside = (x.abs() < half) & (y.abs() < half)
        radius = (x * x + y * y).sqrt()
        shapes = (
            inside,
            radius < half,
            inside & (x.abs() < (y + half) / 2 + 0.3),
            inside & ((x.abs() < half / 3 + 0.3) | (y.abs() < half / 3 + 0.3)),
            (radius < half) & (radius > half / 2),
        )
        found.append(torch.stack(shapes))
    return torch.stack(found)


def draw(count: int, seed: int) -> Scenes:
    r"""Scenes of a seed.

    u is uniform, g normal, each drawn for a pixel and a channel; torn patches are painted in 7
    pixels of 10.

    Equation: $x = \mathrm{clip}_{[0, 1]}(b + 0.05 \, g), \quad
    b = \mathrm{tone\ where\ inked}, \; \mathrm{else\ paint\ where\ torn}, \; \mathrm{else} \quad
    0.45 + 0.25 \, u$
    """
    generator = torch.Generator().manual_seed(seed)

    def pick(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=generator)

    cells = torch.rand(count, 16, generator=generator).argsort(1)[:, :OBJECTS]  # (B, 3)
    size, colour, shape = (
        pick(len(words), count, OBJECTS) for words in (SIZES, COLOURS, SHAPES)
    )  # (B, 3) each
    images = 0.45 + 0.25 * torch.rand(count, 3, SIDE, SIDE, generator=generator)
    paint = PALETTE[pick(len(COLOURS), count, GRID * GRID)]  # (B, 64, 3)
    torn = torch.rand(count, GRID * GRID, generator=generator).argsort(1) < FRAGMENTS  # (B, 64)
    fragments = _unfold(torn[..., None].expand(-1, -1, 3))  # (B, 3, 32, 32)
    ragged = torch.rand(count, 1, SIDE, SIDE, generator=generator) < 0.7
    images = torch.where((fragments > 0) & ragged, _unfold(paint), images)
    clutter = torch.tensor([len(SIZES), len(COLOURS), len(SHAPES)])
    labels = clutter.expand(count, GRID, GRID, 3).clone()  # (B, 8, 8, 3)
    ink = stencils()
    for b in range(count):
        for o in range(OBJECTS):
            top, left = (int(i) * CELL for i in divmod(int(cells[b, o]), 4))
            where = images[b, :, top : top + CELL, left : left + CELL]
            inked = ink[size[b, o], shape[b, o]]
            tone = PALETTE[colour[b, o]][:, None, None]
            where.copy_(torch.where(inked, tone, where))
            box = labels[b, top // PATCH : top // PATCH + 2, left // PATCH : left // PATCH + 2]
            box[:] = torch.stack([size[b, o], colour[b, o], shape[b, o]])
    shows_size = pick(2, count, 2).bool()  # whether the sparse caption tells a size
    texts = [
        _captions(cells[b].tolist(), size[b].tolist(), colour[b].tolist(), shape[b].tolist(), keep)
        for b, keep in enumerate(shows_size.tolist())
    ]
    sparse = torch.tensor([_padded(text, SPARSE_WORDS) for text, _ in texts])
    dense = torch.tensor([_padded(text, DENSE_WORDS) for _, text in texts])
    noise = 0.05 * torch.randn(images.shape, generator=generator)
    return Scenes((images + noise).clamp(0, 1), sparse, dense, labels=labels.flatten(1, 2))


def _unfold(patches: Tensor) -> Tensor:
    """Values of patches (B, 64, 3) as pixels (B, 3, 32, 32)."""
    grid = torch.unflatten(patches.float(), 1, (GRID, GRID)).permute(0, 3, 1, 2)  # (B, 3, 8, 8)
    return grid.repeat_interleave(PATCH, 2).repeat_interleave(PATCH, 3)


def _captions(
    cells: list[int], size: list[int], colour: list[int], shape: list[int], shows_size: list[bool]
) -> tuple[list[str], list[str]]:
    """The sparse and the dense caption of one scene, as words."""
    named = [[COLOURS[c], SHAPES[s]] for c, s in zip(colour, shape, strict=True)]
    sized = [[SIZES[z], *words] for z, words in zip(size, named, strict=True)]
    first, second = (sized[o] if shows_size[o] else named[o] for o in (0, 1))
    sparse = [*first, relation(cells[0], cells[1]), *second]
    dense: list[str] = []
    for words, cell in zip(sized, cells, strict=True):
        row, column = divmod(cell, 4)
        dense += [*words, "at", ROWS[row], COLUMNS[column]]
    return sparse, dense


def relation(one: int, other: int) -> str:
    """How a cell stands to another, along the axis on which they are further apart."""
    (row, column), (row_2, column_2) = divmod(one, 4), divmod(other, 4)
    if abs(column - column_2) >= abs(row - row_2):
        return "left-of" if column < column_2 else "right-of"
    return "above" if row < row_2 else "below"


def _padded(words: list[str], length: int) -> list[int]:
    return [IDS[word] for word in words] + [0] * (length - len(words))


def in_words(ids: Tensor) -> str:
    """A caption as text."""
    return " ".join(VOCABULARY[i] for i in ids.tolist() if i)

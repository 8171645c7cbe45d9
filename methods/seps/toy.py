"""Images and captions made on the spot, objects with attributes and relations on clutter, and
small encoders for them, in the places of a ViT and a BERT.

A scene holds three objects on a 4 x 4 grid of cells, each of a size, a colour and a shape. Clutter
lies between them: noise, and fragments of the same colours. The sparse caption names two of the
objects and how they stand to each other; the dense one names all three and where they are. A scene
depends on the seed and its number alone.

The image encoder is taught the labels of patches first, as a ViT comes from ImageNet; the text
encoder starts from nothing. Both are trained on with the alignment, as in the source.
"""

from dataclasses import dataclass, field, replace
from functools import cache

import torch
from torch import Tensor, nn

from .pairs import Batch, Texts

SIDE, PATCH, CELL = 32, 4, 8  # pixels
GRID = SIDE // PATCH  # patches a side
OBJECTS = 3
SIZES = ("small", "large")
COLOURS = ("red", "green", "blue", "yellow", "purple", "cyan")
SHAPES = ("square", "disc", "triangle", "cross", "ring")
ATTRIBUTES = (SIZES, COLOURS, SHAPES)
ROWS = ("top", "upper", "lower", "bottom")
COLUMNS = ("left", "inner-left", "inner-right", "right")
RELATIONS = ("left-of", "right-of", "above", "below")
VOCABULARY = ("<pad>", *SIZES, *COLOURS, *SHAPES, *ROWS, *COLUMNS, *RELATIONS, "at", "with")
IDS = {word: number for number, word in enumerate(VOCABULARY)}
PALETTE = torch.tensor(
    [[0.9, 0.1, 0.1], [0.1, 0.8, 0.1], [0.15, 0.2, 0.95], [0.9, 0.85, 0.1], [0.6, 0.1, 0.7],
     [0.1, 0.8, 0.85]]
)  # fmt: skip
DENSE_WORDS = 18  # 6 an object
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
    r"""Masks of each shape in each size: (2, 5, 8, 8) bool.

    In the order of `SHAPES`, x and y from the middle of the cell, r of each size; triangle and
    cross lie within the square.

    Equation: $\max(|x|, |y|) < r, \quad x^2 + y^2 < r^2, \quad |x| < \frac{y + r}{2} + 0.3, \quad
    \min(|x|, |y|) < \frac{r}{3} + 0.3, \quad \frac{r}{2} < \sqrt{x^2 + y^2} < r$
    """
    y, x = torch.meshgrid(*[torch.arange(CELL) - (CELL - 1) / 2] * 2, indexing="ij")
    half = torch.tensor([2.6, 4.0])[:, None, None]  # of each size
    inside = (x.abs() < half) & (y.abs() < half)  # (2, 8, 8)
    radius = (x * x + y * y).sqrt()
    shapes = [
        inside,
        radius < half,
        inside & (x.abs() < (y + half) / 2 + 0.3),
        inside & ((x.abs() < half / 3 + 0.3) | (y.abs() < half / 3 + 0.3)),
        (radius < half) & (radius > half / 2),
    ]
    return torch.stack(shapes, 1)


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
    attributes = torch.stack([pick(len(words), count, OBJECTS) for words in ATTRIBUTES], 2)
    size, colour, shape = attributes.unbind(2)  # (B, 3) each
    images = 0.45 + 0.25 * torch.rand(count, 3, SIDE, SIDE, generator=generator)
    paint = PALETTE[pick(len(COLOURS), count, GRID * GRID)]  # (B, 64, 3)
    torn = torch.rand(count, GRID * GRID, generator=generator).argsort(1) < FRAGMENTS  # (B, 64)
    fragments = _unfold(torn[..., None].expand(-1, -1, 3))  # (B, 3, 32, 32)
    ragged = torch.rand(count, 1, SIDE, SIDE, generator=generator) < 0.7
    images = torch.where((fragments > 0) & ragged, _unfold(paint), images)
    # (B, 8, 8, 3): clutter, which is the last class of each, where no object is drawn.
    labels = torch.tensor([len(words) for words in ATTRIBUTES]).repeat(count, GRID, GRID, 1)
    # Views by cell: (B, 4, 4, 3, 8, 8) and (B, 4, 4, 2, 2, 3).
    cell_pixels = images.view(count, 3, 4, CELL, 4, CELL).permute(0, 2, 4, 1, 3, 5)
    cell_labels = labels.view(count, 4, 2, 4, 2, 3).transpose(2, 3)
    index = torch.arange(count)[:, None], cells // 4, cells % 4  # (B, 1), (B, 3), (B, 3)
    inked, tone = stencils()[size, shape][:, :, None], PALETTE[colour][..., None, None]
    cell_pixels[index] = torch.where(inked, tone, cell_pixels[index])  # (B, 3, 3, 8, 8)
    cell_labels[index] = attributes[:, :, None, None]
    shows_size = pick(2, count, 2).bool()  # whether the sparse caption tells a size
    sparse, dense = _captions(cells, attributes, shows_size)
    noise = 0.05 * torch.randn(images.shape, generator=generator)
    return Scenes((images + noise).clamp(0, 1), sparse, dense, labels=labels.flatten(1, 2))


def labelled(scenes: Scenes) -> Scenes:
    """Return scenes whose images are the labels of their patches, for `ExactEncoder`."""
    return replace(scenes, images=scenes.labels)


def _unfold(patches: Tensor) -> Tensor:
    """Values of patches (B, 64, 3) as pixels (B, 3, 32, 32)."""
    grid = torch.unflatten(patches.float(), 1, (GRID, GRID)).permute(0, 3, 1, 2)  # (B, 3, 8, 8)
    return grid.repeat_interleave(PATCH, 2).repeat_interleave(PATCH, 3)


def _captions(cells: Tensor, attributes: Tensor, shows_size: Tensor) -> tuple[Tensor, Tensor]:
    """The sparse captions (B, 7) and the dense ones (B, 18) as ids.

    Cells are (B, 3), attributes (B, 3, 3), and whether each size of the sparse caption is told
    (B, 2).
    """
    named = torch.tensor([IDS[words[0]] for words in ATTRIBUTES]) + attributes  # (B, 3, 3)
    place = torch.full_like(cells, IDS["at"])
    places = torch.stack([place, IDS[ROWS[0]] + cells // 4, IDS[COLUMNS[0]] + cells % 4], 2)
    dense = torch.cat([named, places], 2).flatten(1)
    pairs = [IDS[relation(first, second)] for first, second, _ in cells.tolist()]
    described = named[:, :2].clone()
    described[..., 0] *= shows_size
    sparse = torch.cat([described[:, 0], torch.tensor(pairs)[:, None], described[:, 1]], 1)
    last = (sparse == 0).int().argsort(stable=True)  # what is not told goes to the padding
    return sparse.gather(1, last), dense


def relation(cell: int, other: int) -> str:
    """Relation of a cell to another, along the axis on which they are further apart."""
    (row, column), (row_2, column_2) = divmod(cell, 4), divmod(other, 4)
    if abs(column - column_2) >= abs(row - row_2):
        return "left-of" if column < column_2 else "right-of"
    return "above" if row < row_2 else "below"


def caption_text(ids: Tensor) -> str:
    """A caption as text."""
    return " ".join(VOCABULARY[i] for i in ids.tolist() if i)


def _blocks(dim: int, layers: int) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        dim, 4, 2 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, nn.LayerNorm(dim), enable_nested_tensor=False)


class ImageEncoder(nn.Module):
    """Pixels (B, 3, 32, 32) to CLS and patches (B, 1 + 64, C)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, dim, PATCH, PATCH)
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, dim))
        self.places = nn.Parameter(0.02 * torch.randn(1, 1 + GRID * GRID, dim))
        self.blocks = _blocks(dim, 2)
        classes = (len(words) + 1 for words in ATTRIBUTES)
        self.label_heads = nn.ModuleList(nn.Linear(dim, count) for count in classes)

    def forward(self, images: Tensor) -> Tensor:
        r"""CLS and patches (B, 65, C) of images (B, 3, 32, 32).

        c is the CLS parameter, P that of the places.

        Equation: $[\mathrm{CLS}, v] = \mathrm{Encoder}([c, \mathrm{Conv}(2 x - 1)] + P)$
        """
        patches = self.embed(2 * images - 1).flatten(2).mT  # (B, 64, C)
        cls = self.cls.expand(len(images), -1, -1)  # (B, 1, C)
        encoded: Tensor = self.blocks(torch.cat([cls, patches], 1) + self.places)  # (B, 65, C)
        return encoded

    def label_loss(self, batch: Scenes) -> Tensor:
        r"""Cross entropy () of size, colour and shape of every patch; clutter is a class of each.

        Equation: $L = -\sum_a \log p_a(y_a \mid v)$
        """
        patches = self(batch.images)[:, 1:]  # (B, 64, C)
        loss = torch.zeros((), device=patches.device)
        for kind, head in enumerate(self.label_heads):
            logits = head(patches)  # (B, 64, classes)
            loss = loss + nn.functional.cross_entropy(logits.mT, batch.labels[..., kind])
        return loss


class ExactEncoder(nn.Module):
    """Labels of patches (B, 64, 3) to CLS and patches (B, 1 + 64, C); nothing is learnt.

    It stands for an image encoder that has learnt all there is to see, up to noise.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        sizes = (len(words) + 1 for words in ATTRIBUTES)
        self.tables = nn.ModuleList(nn.Embedding(size, dim) for size in sizes)
        self.places = nn.Parameter(0.5 * torch.randn(GRID * GRID, dim))
        self.requires_grad_(False)

    def forward(self, labels: Tensor) -> Tensor:
        r"""The mean of all patches as CLS, and the patches: (B, 65, C).

        Equation: $v_i = \sum_a E^a_{y_{ia}} + P_i + 0.3 \epsilon, \quad \epsilon \sim N(0, 1)$
        """
        named = [table(labels[..., kind]) for kind, table in enumerate(self.tables)]
        v = torch.stack(named).sum(0) + self.places  # (B, 64, C)
        v = v + 0.3 * torch.randn_like(v)  # (B, 64, C)
        return torch.cat([v.mean(1, keepdim=True), v], 1)


class TextEncoder(nn.Module):
    """Word ids (T, W), 0 being padding, to words (T, W, C)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(VOCABULARY), dim)
        self.places = nn.Parameter(0.02 * torch.randn(1, DENSE_WORDS, dim))
        self.blocks = _blocks(dim, 1)

    def forward(self, ids: Tensor) -> Texts:
        r"""The words (T, W, C) of captions (T, W) with what of them is real (T, W).

        Padding is not attended to.

        Equation: $t_w = \mathrm{Encoder}(E_{id} + P)_w, \quad
        \mathrm{real}_w = [\, \mathrm{id}_w \ne 0 \,]$
        """
        real = ids != 0  # (T, W)
        words = self.embed(ids) + self.places[:, : ids.shape[1]]  # (T, W, C)
        return Texts(self.blocks(words, src_key_padding_mask=~real), real)

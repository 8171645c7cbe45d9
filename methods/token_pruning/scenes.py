"""Scenes drawn on the fly, with questions whose answers stand in one patch or follow from two.

A scene is 128 x 128 pixels, 8 x 8 patches of 16. Twelve patches hold a glyph each, twelve shapes
out of sixteen, no shape twice, in one of six colours; every patch, empty or not, has clutter under
it. White corners of a glyph's patch spell the number of another shape, which it *points to*. Asked
are the colour of a shape, its row, and the colour of the glyph that it points to: the last takes
two patches, and which one holds the answer cannot be told from the question alone.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

GRID, PATCH = 8, 16
SIDE, PATCHES = GRID * PATCH, GRID * GRID
SHAPES, COLOURS, OBJECTS = 16, 6, 12

BOS, IMAGE = 1, 2
KINDS = ("colour", "row", "target")
ASK_COLOUR = 3  # the other kinds of questions follow
SHAPE_0 = 6
COLOUR_0 = SHAPE_0 + SHAPES
ROW_0 = COLOUR_0 + COLOURS
VOCAB = ROW_0 + GRID
EMPTY = SHAPES  # label of a patch without a glyph
PALETTE = ((0.95, 0.2, 0.2), (0.2, 0.85, 0.3), (0.25, 0.35, 1.0), (0.95, 0.9, 0.2),
           (0.9, 0.3, 0.9), (0.2, 0.9, 0.9))  # fmt: skip


def glyphs() -> dict[str, Tensor]:
    r"""The sixteen shapes as masks (PATCH, PATCH) bool, by their names.

    Equation: $G_{kij} = f_k(x, y), \quad x = j - \frac{15}{2}, \quad y = i - \frac{15}{2}$

    f_k is the k-th condition listed, f_0 a disc: x^2 + y^2 < 36.
    """
    axis = torch.arange(PATCH) - (PATCH - 1) / 2
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    radius, diamond = (x**2 + y**2).sqrt(), x.abs() + y.abs()
    square = torch.maximum(x.abs(), y.abs())
    inside = square < 6
    return {
        "disc": radius < 6,
        "ring": (radius < 6.5) & (radius > 3.5),
        "square": square < 5,
        "frame": inside & (square > 3),
        "triangle down": (y > 2 * x.abs() - 6) & (y < 5),
        "triangle up": (-y > 2 * x.abs() - 6) & (y > -5),
        "plus": inside & ((x.abs() < 2) | (y.abs() < 2)),
        "cross": inside & (((x - y).abs() < 2.5) | ((x + y).abs() < 2.5)),
        "diamond": diamond < 6.5,
        "bar": inside & (y.abs() < 2),
        "post": inside & (x.abs() < 2),
        "chess": inside & (((x + 8) // 3 + (y + 8) // 3) % 2 == 0),
        "L": inside & ((x < -2) | (y > 2)),
        "T": inside & ((x.abs() < 2) | (y < -2)),
        "U": inside & ((x.abs() > 3) | (y > 3)),
        "corner": inside & (x > y),
    }


def corners() -> Tensor:
    r"""Numbers 0 to 15 spelled by white corners of two pixels a side: (16, PATCH, PATCH) bool.

    Equation: $C_{kij} = [\, i, j \in \{ 0, 1, 14, 15 \} \,] \left( \lfloor k / 2^b \rfloor \bmod 2
    \right), \quad b = 2\, [\, i \ge 14 \,] + [\, j \ge 14 \,]$
    """
    bits = torch.arange(SHAPES)[:, None] >> torch.arange(4) & 1  # (16, 4)
    squares = bits.view(SHAPES, 2, 2).repeat_interleave(2, 1).repeat_interleave(2, 2)
    edges = torch.tensor([0, 1, PATCH - 2, PATCH - 1])
    marks = torch.zeros(SHAPES, PATCH, PATCH, dtype=torch.bool)
    marks[:, edges[:, None], edges] = squares.bool()
    return marks


SHAPE_NAMES = tuple(glyphs())
GLYPHS, CORNERS = torch.stack([*glyphs().values()]).float(), corners().float()


@dataclass(frozen=True)
class Scenes:
    """A batch of scenes with what stands where.

    `pixels` (B, 3, SIDE, SIDE) in about [-1, 1]; `shape` and `target` (B, PATCHES) with EMPTY for
    none, `colour` (B, PATCHES) with COLOURS for none; `cells` (B, OBJECTS) the patches with a
    glyph, each pointing to the next of the list, the last to the first.
    """

    pixels: Tensor
    shape: Tensor
    colour: Tensor
    target: Tensor
    cells: Tensor


@dataclass(frozen=True)
class Questions:
    """Questions of scenes.

    `ids` (B, Q, 2): what is asked, then the shape, so that the last token knows both. `answer`
    (B, Q) token ids, `kind` (B, Q) indices into KINDS, `needed` (B, Q, 2) the patch that is asked
    about and the one that holds the answer (the same but for *target*), `sought` (B, Q) the token
    id of the latter's shape.
    """

    ids: Tensor
    answer: Tensor
    kind: Tensor
    needed: Tensor
    sought: Tensor


def draw(
    batch: int, generator: torch.Generator, *, objects: int = OBJECTS, clutter: float = 0.4
) -> Scenes:
    r"""Draw scenes (B): glyphs in some of the patches, over clutter.

    Equation: $x = 2 \left( C + (1 - C) (G c \beta + (1 - G) u) + 0.05 \epsilon \right) - 1, \quad
    \beta \sim U(.8, 1), \quad u \sim U(0, \mathrm{clutter})$ in squares of 4 pixels

    In each patch, G is its glyph in the colour c and C the corners that spell its target, both 0
    where there is none; epsilon ~ N(0, 1).
    """
    cells = torch.rand(batch, PATCHES, generator=generator).topk(objects).indices  # (B, objects)
    kinds = torch.rand(batch, SHAPES, generator=generator).argsort(-1)[:, :objects]
    hues = torch.randint(COLOURS, (batch, objects), generator=generator)
    shape = torch.full((batch, PATCHES), EMPTY).scatter(1, cells, kinds)
    colour = torch.full((batch, PATCHES), COLOURS).scatter(1, cells, hues)
    target = torch.full((batch, PATCHES), EMPTY).scatter(1, cells, kinds.roll(-1, 1))
    bright = 0.8 + 0.2 * torch.rand(batch, PATCHES, generator=generator)
    under = clutter * torch.rand(batch, PATCHES, 3, 4, 4, generator=generator)
    masks = torch.cat((GLYPHS, torch.zeros(1, PATCH, PATCH)))[shape]  # (B, PATCHES, P, P)
    hue = torch.cat((torch.tensor(PALETTE), torch.zeros(1, 3)))[colour]  # (B, PATCHES, 3)
    drawn = masks[:, :, None] * hue[..., None, None] * bright[..., None, None, None]
    background = under.repeat_interleave(4, -1).repeat_interleave(4, -2)
    patches = torch.where(masks[:, :, None] > 0, drawn, background)
    spelled = torch.cat((CORNERS, torch.zeros(1, PATCH, PATCH)))[target][:, :, None]
    patches = torch.where(spelled > 0, torch.ones(()), patches)
    patches = patches + 0.05 * torch.randn(patches.shape, generator=generator)
    pixels = patches.view(-1, GRID, GRID, 3, PATCH, PATCH).permute(0, 3, 1, 4, 2, 5)
    return Scenes(pixels.reshape(-1, 3, SIDE, SIDE) * 2 - 1, shape, colour, target, cells)


def ask(scenes: Scenes, count: int, generator: torch.Generator) -> Questions:
    r"""Ask `count` questions of each scene.

    Equation: $a_q = \mathrm{ROW}_0 + \lfloor p_q / 8 \rfloor \;\mathrm{of\ a\ row}, \quad
    a_q = \mathrm{COLOUR}_0 + \mathrm{colour}(p'_q) \;\mathrm{else}$

    p is the patch asked about, p' what it points to if the target's colour is asked, else p.
    """
    batch, objects = scenes.cells.shape
    which = torch.randint(objects, (batch, count), generator=generator)
    kind = torch.randint(len(KINDS), (batch, count), generator=generator)
    asked = scenes.cells.gather(1, which)  # (B, Q) patch of the shape that is named
    other = scenes.cells.gather(1, (which + 1) % objects)  # what it points to
    holds = torch.where(kind == KINDS.index("target"), other, asked)
    colour = COLOUR_0 + scenes.colour.gather(1, holds)
    answer = torch.where(kind == KINDS.index("row"), ROW_0 + asked // GRID, colour)
    named = SHAPE_0 + scenes.shape.gather(1, asked)
    ids, needed = torch.stack((ASK_COLOUR + kind, named), -1), torch.stack((asked, holds), -1)
    return Questions(ids, answer, kind, needed, SHAPE_0 + scenes.shape.gather(1, holds))

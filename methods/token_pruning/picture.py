"""What is kept, drawn: a scene by stage and question, dropped patches dimmed."""

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from methods.token_pruning import scenes
from methods.token_pruning.loop import BEFORE, Stage, read
from methods.token_pruning.scenes import EMPTY, GRID, PATCH, PATCHES
from methods.token_pruning.toy import Exam

GAP, TOP, LEFT = 12, 24, 92
SHAPE_NAMES = ("disc", "ring", "square", "frame", "triangle down", "triangle up", "plus", "cross",
               "diamond", "bar", "post", "chess", "L", "T", "U", "corner")  # fmt: skip


def picture(exam: Exam, stages: Sequence[Stage], questions: int = 3) -> str:
    """An SVG: a row a question of the first scene, a column a stage, kept patches bright."""
    rows = min(questions, len(exam.prompt.ids))
    kept = read(exam.llava, exam.prompt, stages, vision=exam.vision).kept
    side = GRID * PATCH
    columns: list[tuple[str, Tensor | None]] = [
        ("all", None),
        *((_name(layer), index) for layer, index in kept.items()),
    ]
    parts = []
    for c, (title, _) in enumerate(columns):
        parts.append(f'<text x="{LEFT + c * (side + GAP)}" y="16">{title}</text>')
    for r in range(rows):
        top = TOP + r * (side + GAP)
        ask, shape = (int(i) for i in exam.asked.ids[0, r])
        words = (scenes.KINDS[ask - scenes.ASK_COLOUR], SHAPE_NAMES[shape - scenes.SHAPE_0])
        for line, word in enumerate(words):
            parts.append(f'<text x="0" y="{top + 20 + 16 * line}">{word}</text>')
        for c, (_, index) in enumerate(columns):
            bright = torch.ones(PATCHES, dtype=torch.bool)
            if index is not None:
                bright = torch.zeros(PATCHES, dtype=torch.bool).scatter(0, index[r].cpu(), True)
            at = f"translate({LEFT + c * (side + GAP)} {top})"
            needed = exam.asked.needed[0, r]
            parts.append(f'<g transform="{at}">{_scene(exam, bright, needed)}</g>')
    width = LEFT + len(columns) * (side + GAP)
    height = TOP + rows * (side + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13" role="img">'
        "<title>Patches kept by stage and question; outlined, those the answer needs</title>"
        + "".join(parts)
        + "</svg>"
    )


def _name(layer: int) -> str:
    return "merger" if layer == BEFORE else f"before layer {layer}"


def _scene(exam: Exam, bright: Tensor, needed: Tensor) -> str:
    parts = []
    for patch in range(PATCHES):
        x, y = patch % GRID * PATCH, patch // GRID * PATCH
        shape, colour = int(exam.drawn.shape[0, patch]), int(exam.drawn.colour[0, patch])
        faint = "1" if bright[patch] else ".15"
        edge = ' stroke="#d55e00" stroke-width="2"' if patch in needed.tolist() else ""
        cell = f'<rect width="{PATCH}" height="{PATCH}" fill="#333"{edge}/>'
        if shape != EMPTY and colour != scenes.COLOURS:
            rgb = ",".join(str(round(255 * c)) for c in scenes.PALETTE[colour])
            cell += f'<path fill="rgb({rgb})" d="{_path(scenes.GLYPHS[shape])}"/>'
            marks = scenes.CORNERS[int(exam.drawn.target[0, patch])]
            cell += f'<path fill="#fff" d="{_path(marks)}"/>'
        parts.append(f'<g transform="translate({x} {y})" opacity="{faint}">{cell}</g>')
    return "".join(parts)


def _path(mask: Tensor) -> str:
    """Runs of set pixels as rectangles."""
    runs = []
    for y, row in enumerate(mask.bool().tolist()):
        x = 0
        for inked, run in groupby(row):
            wide = len(list(run))
            if inked:
                runs.append(f"M{x} {y}h{wide}v1h{-wide}z")
            x += wide
    return "".join(runs)

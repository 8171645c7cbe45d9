"""What is kept, drawn: a scene by stage and question, dropped patches dimmed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..kit.images import drawing, embedded
from . import scenes
from .loop import BEFORE, Stage, read
from .scenes import GRID, PATCH, PATCHES, SIDE
from .toy import Exam

GAP, TOP, LEFT = 12, 24, 92
QUESTIONS = 3
DIMMED = 0.15


def picture(exam: Exam, stages: Sequence[Stage]) -> str:
    """An SVG: a row a question of the first scene, a column a stage, kept patches bright."""
    kept = read(exam.llava, exam.prompt, stages, vision=exam.vision).kept
    titles = ["all", *("merger" if at == BEFORE else f"before layer {at}" for at in kept)]
    whole = torch.arange(PATCHES).expand(QUESTIONS, -1)
    parts = []
    for column, (title, index) in enumerate(zip(titles, [whole, *kept.values()], strict=True)):
        x = LEFT + column * (SIDE + GAP)
        parts.append(f'<text x="{x}" y="16">{title}</text>')
        for row in range(QUESTIONS):
            scene = _scene(exam, index[row].cpu(), exam.asked.needed[0, row])
            parts.append(f'<g transform="translate({x} {TOP + row * (SIDE + GAP)})">{scene}</g>')
    for row in range(QUESTIONS):
        ask, shape = (int(i) for i in exam.asked.ids[0, row])
        words = (scenes.KINDS[ask - scenes.ASK_COLOUR], scenes.SHAPE_NAMES[shape - scenes.SHAPE_0])
        for line, word in enumerate(words):
            y = TOP + row * (SIDE + GAP) + 20 + 16 * line
            parts.append(f'<text x="0" y="{y}">{word}</text>')
    width, height = LEFT + len(titles) * (SIDE + GAP), TOP + QUESTIONS * (SIDE + GAP)
    title = "Patches kept by stage and question; outlined, those the answer needs"
    return drawing(title, width, height, 'font-family="sans-serif" font-size="13"', parts)


def _scene(exam: Exam, kept: Tensor, needed: Tensor) -> str:
    """The first scene as it is seen, other patches than those kept dimmed."""
    bright = torch.full((PATCHES,), DIMMED).scatter(0, kept, 1.0).view(1, GRID, GRID)
    bright = bright.repeat_interleave(PATCH, 1).repeat_interleave(PATCH, 2)  # (1, SIDE, SIDE)
    pixels = torch.cat(((exam.drawn.pixels[0].clamp(-1, 1) + 1) / 2, bright))  # (4, SIDE, SIDE)
    frames = (
        f'<rect x="{patch % GRID * PATCH}" y="{patch // GRID * PATCH}" width="{PATCH}" '
        f'height="{PATCH}" fill="none" stroke="#d55e00" stroke-width="2"/>'
        for patch in sorted(set(needed.tolist()))
    )
    return embedded(pixels, SIDE) + "".join(frames)

"""What is kept, drawn: a scene by stage and question, dropped patches faded."""

from collections.abc import Sequence

from ..kit.images import Panel, panels
from . import scenes
from .loop import BEFORE, Stage, read
from .toy import Exam

QUESTIONS = 3
FADED = 'fill="#fff" fill-opacity=".85"'
CLEAR, FRAME = 'fill="none"', ' stroke="#d55e00" stroke-width="2"'


def picture(exam: Exam, stages: Sequence[Stage]) -> str:
    """An SVG: a row a question of the first scene, a column a stage, kept patches bright."""
    every = range(scenes.PATCHES)
    kept = read(exam.llava, exam.prompt, stages, vision=exam.vision).kept
    pixels, rows = (exam.drawn.pixels[0].clamp(-1, 1) + 1) / 2, []
    for question in range(QUESTIONS):
        ask, shape = exam.asked.ids[0, question].tolist()
        needed = exam.asked.needed[0, question].tolist()
        shown = [Panel("all", dict.fromkeys(needed, CLEAR + FRAME))]
        for at, index in kept.items():
            gone = dict.fromkeys(set(every) - set(index[question].tolist()), FADED)
            frames = {patch: gone.get(patch, CLEAR) + FRAME for patch in needed}
            shown.append(Panel("merger" if at == BEFORE else f"before layer {at}", gone | frames))
        words = scenes.KINDS[ask - scenes.ASK_COLOUR], scenes.SHAPE_NAMES[shape - scenes.SHAPE_0]
        rows.append(("\n".join(words), pixels, shown))
    title = "Patches kept by stage and question; outlined, those the answer needs"
    return panels(title, rows, grid=scenes.GRID, side=scenes.SIDE, left=92)

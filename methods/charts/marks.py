"""The strokes that every chart is made of, escaped and classed."""

import math
import re
from collections.abc import Iterable, Sequence
from html import escape

from assay_common.text import one_line

from .layout import text_width

WIDTH = 480.0
MARGIN = 14.0
TITLE, TEXT, SMALL = 16.0, 13.0, 12.0
LINE = 14.0  # from one line of a label to the next

SHAPES = (
    "M{x} {y}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",  # circle
    "M{x} {y}m-3.5-3.5h7v7h-7z",  # square
    "M{x} {y}m0-4.8l4.5 8h-9z",  # triangle
    "M{x} {y}m0-5l5 5-5 5-5-5z",  # diamond
    "M{x} {y}m0 4.8l4.5-8h-9z",  # triangle on its point
    "M{x} {y}m-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",  # cross
)


def mark(shape: int, x: float, y: float, *, hollow: bool) -> str:
    """A variant's mark at a place; hollow where the number is in doubt."""
    path = SHAPES[shape % len(SHAPES)].format(x=f"{x:.1f}", y=f"{y:.1f}")
    return f'<path class="{"doubt" if hollow else "mark"}" d="{path}"/>'


def whisker(x: float, low: float, high: float) -> str:
    """An upright interval; nothing when it is too short to be seen."""
    if abs(low - high) < 0.5:
        return ""
    return f'<path class="whisker" d="M{x - 3:.1f} {high:.1f}h6m-3 0V{low:.1f}m-3 0h6"/>'


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """A straight line of one of the style's classes."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def polyline(kind: str, points: Iterable[tuple[float, float]]) -> str:
    """A line through points, of one of the style's classes."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{path}"/>'


def tick_label(label: str, x: float, y: float, anchor: str = "middle") -> str:
    """A number at an axis, or at the end of a row."""
    place = f'text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}"'
    return f'<text class="tick" {place}>{escaped(label)}</text>'


def tick_labels(labels: Iterable[tuple[float, str]], y: float) -> Iterable[str]:
    """Yield the labels (x, text) of an x axis for which there is room, from the left."""
    clear = -math.inf
    for x, label in labels:
        half = text_width(label, SMALL, mono=True) / 2
        if x - half >= clear:
            clear = x + half + 6
            yield tick_label(label, x, y)


def text_lines(kind: str, lines: Sequence[str], x: float, y: float) -> str:
    """A text of several lines, of which the first stands at y."""
    first, *rest = map(escaped, lines)
    more = "".join(f' <tspan x="{x:.1f}" dy="{LINE:g}">{text}</tspan>' for text in rest)
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{first}{more}</text>'


def escaped(text: str) -> str:
    """Cleaned and escaped for XML, without the two code points that XML cannot hold."""
    return escape(re.sub("[\ufffe\uffff]", "", one_line(text)), quote=True)

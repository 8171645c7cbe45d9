"""Pictures that stand alone, as SVG: of images whose patches are marked, or of anything else."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from PIL import Image
from torch import Tensor

# Pixels between images, above a row for its titles, and from a line of text to the next.
GAP, TOP, LINE = 16, 24, 18
DESCENT = 6  # pixels of a text below its baseline


def drawing(title: str, width: float, height: float, font: str, parts: Iterable[str]) -> str:
    """Return an SVG that stands alone; `font` are attributes of its texts."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {font}>'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


@dataclass(frozen=True)
class Panel:
    """An image whose patches are marked: by attributes of a square over each, and a short text."""

    title: str
    squares: Mapping[int, str] = field(default_factory=dict)
    texts: Mapping[int, str] = field(default_factory=dict)


def panels(
    title: str,
    rows: Sequence[tuple[str, Tensor, Sequence[Panel]]],
    *,
    grid: int,
    side: int,
    left: int = 0,
) -> str:
    """Return rows of panels of `grid` x `grid` patches, each `side` pixels wide, as SVG.

    A row has lines of text, which stand on its `left`, or below it where there is no room, and
    pixels in 0 .. 1, (3, H, W), which all of its panels show.
    """
    parts, step, bottom = [], side / grid, 0
    for label, pixels, shown in rows:
        top = bottom + TOP
        lines = label.split("\n")
        first = top + LINE if left else top + side + LINE
        for number, line in enumerate(lines):
            parts.append(f'<text y="{first + LINE * number}">{escape(line)}</text>')
        bottom = max(top + side, first + LINE * len(lines) - LINE + DESCENT)
        for column, panel in enumerate(shown):
            x = left + column * (side + GAP)
            parts.append(f'<g transform="translate({x} {top})">{_embedded(pixels, side)}')
            for patch, style in panel.squares.items():
                place = f'x="{patch % grid * step}" y="{patch // grid * step}"'
                parts.append(f'<rect {place} width="{step}" height="{step}" {style}/>')
            for patch, text in panel.texts.items():
                place = f'x="{(patch % grid + 0.5) * step}" y="{(patch // grid + 0.5) * step + 4}"'
                centred = f'{place} text-anchor="middle" font-size="11"'
                parts.append(f"<text {centred}>{escape(text)}</text>")
            parts.append(f'<text y="-8">{escape(panel.title)}</text></g>')
    width = left + max(len(shown) for _, _, shown in rows) * (side + GAP)
    font = 'font-family="sans-serif" font-size="13"'
    return drawing(title, width, bottom + GAP, font, parts)


def _embedded(pixels: Tensor, side: int) -> str:
    data = (255 * pixels.cpu().clamp(0, 1)).round().byte().permute(1, 2, 0).numpy()
    Image.fromarray(data).save(file := io.BytesIO(), "PNG")
    png = base64.b64encode(file.getvalue()).decode()
    style = 'style="image-rendering:pixelated"'
    return f'<image width="{side}" height="{side}" {style} href="data:image/png;base64,{png}"/>'

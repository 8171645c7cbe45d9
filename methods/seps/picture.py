"""An image with its kept, aggregated and dropped patches, as SVG."""

from html import escape

import torch

from ..kit.images import drawing, embedded
from . import toy as scenes
from .model import Batch
from .train import Matcher

SCALE, GAP = 6, 24  # pixels of the picture for one of the image's, and between the panels
STEP = scenes.PATCH * SCALE
# Of the aggregated tokens; neighbours differ in lightness, too, and every patch bears its number.
HUES = [(hue * 47) % 360 for hue in range(24)]


@torch.no_grad()
def picture(matcher: Matcher, batch: Batch) -> str:
    """Three panels for the first pair of a batch: the image, who stays, who is merged where."""
    one = Batch(batch.images[:1], batch.sparse[:1], batch.dense[:1])  # type: ignore[index]
    matcher.eval()
    output = matcher(one)
    stays = output.masks[0][0, 0] > 0.5  # (N,)
    token = output.shares[0].kept[0, 0].argmax(0)  # (N,): where a patch weighs most
    side = scenes.SIDE * SCALE
    image = embedded(one.images[0], side, ' style="image-rendering:pixelated"')
    patches = range(scenes.GRID**2)
    faded = [_over(i, 'fill="#fff" fill-opacity=".82"') for i in patches if not stays[i]]
    merged = [_merged(i, int(token[i])) for i in patches if stays[i]]
    panels = [
        ("the image", []),
        ("kept; the others fade", faded),
        (f"merged into {output.shares[0].kept.shape[2]} tokens", faded + merged),
    ]
    width, height, caption = 3 * side + 2 * GAP, side + 52, scenes.in_words(one.sparse[0])
    body = [
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<defs><g id="scene">{image}</g></defs>',
    ]
    for place, (label, over) in enumerate(panels):
        body.append(
            f'<g transform="translate({place * (side + GAP)} 24)"><use href="#scene"/>'
            f'{"".join(over)}<text y="-8" font-size="13" fill="#222">{escape(label)}</text></g>'
        )
    body.append(f'<text y="{side + 44}" font-size="14" fill="#222">“{escape(caption)}”</text>')
    return drawing(caption, width, height, 'font-family="sans-serif"', body)


def _over(patch: int, style: str) -> str:
    """A square over a patch."""
    y, x = (STEP * place for place in divmod(patch, scenes.GRID))
    return f'<rect x="{x}" y="{y}" width="{STEP}" height="{STEP}" {style}/>'


def _merged(patch: int, token: int) -> str:
    """A square over a patch in the colour of its token, with the token's number."""
    y, x = (STEP * (place + 0.5) for place in divmod(patch, scenes.GRID))
    hue, light = HUES[token % len(HUES)], 78 if token % 2 else 64
    style = f'fill="hsl({hue} 60% {light}%)" fill-opacity=".8" stroke="#fff"'
    text = f'<text x="{x}" y="{y + 4}" text-anchor="middle" font-size="11" fill="#111">'
    return f"{_over(patch, style)}{text}{token + 1}</text>"

"""An image with its kept, aggregated and dropped patches, as SVG."""

from html import escape

import torch

from methods.kit.images import drawing, embedded
from methods.seps import scenes
from methods.seps.model import Batch
from methods.seps.train import Matcher

SCALE, GAP = 6, 24  # pixels of the picture for one of the image's, and between the panels
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
    side, step = scenes.SIDE * SCALE, scenes.PATCH * SCALE
    image = embedded(one.images[0], side, ' style="image-rendering:pixelated"')
    panels = [
        ("the image", []),
        ("kept; the others fade", [_veil(i, step) for i in range(scenes.GRID**2) if not stays[i]]),
        (
            f"merged into {output.shares[0].kept.shape[2]} tokens",
            [
                _merged(i, int(token[i]), step) if stays[i] else _veil(i, step)
                for i in range(scenes.GRID**2)
            ],
        ),
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


def _box(patch: int, step: int) -> str:
    row, column = divmod(patch, scenes.GRID)
    return f'x="{column * step}" y="{row * step}" width="{step}" height="{step}"'


def _veil(patch: int, step: int) -> str:
    return f'<rect {_box(patch, step)} fill="#fff" fill-opacity=".82"/>'


def _merged(patch: int, token: int, step: int) -> str:
    row, column = divmod(patch, scenes.GRID)
    hue, light = HUES[token % len(HUES)], 78 if token % 2 else 64
    return (
        f'<rect {_box(patch, step)} fill="hsl({hue} 60% {light}%)" fill-opacity=".8" '
        'stroke="#fff"/>'
        f'<text x="{(column + 0.5) * step}" y="{(row + 0.5) * step + 4}" text-anchor="middle" '
        f'font-size="11" fill="#111">{token + 1}</text>'
    )

"""Images of people's own data, read or refused by name before any work; and ours, for an SVG."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from PIL import Image
from torch import Tensor

from ..errors import InputError

SHOWN = 3  # faults named in a message; the rest are counted


def unreadable(path: Path) -> str:
    """Why an image cannot be used; empty where it can. All of it is decoded: half a JPEG opens."""
    try:
        with Image.open(path) as image:
            image.draft("RGB", (64, 64))  # a large JPEG at an eighth of its size: four times faster
            image.load()
    except FileNotFoundError:
        return f"{path.name} is not there"
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return f"{path.name} is no image that can be read"
    return ""


def refuse(faults: Sequence[str], what: str) -> None:
    """Raise InputError naming the first faults and counting all, if there are any."""
    if faults:
        more = f" and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise InputError(
            f"{len(faults)} {what} cannot be used: {'; '.join(faults[:SHOWN])}{more}; mend them, "
            "or leave them out with --set skip=true"
        )


def drawing(title: str, width: float, height: float, font: str, parts: Iterable[str]) -> str:
    """An SVG that stands alone; `font` are attributes of its texts."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {font}>'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def embedded(pixels: Tensor, side: int, style: str = "") -> str:
    """Pixels in 0 .. 1, (3, H, W) or with their opacity (4, H, W), for an SVG, `side` wide."""
    data = (255 * pixels.cpu()).byte().permute(1, 2, 0).numpy()
    Image.fromarray(data).save(file := io.BytesIO(), "PNG")
    png = base64.b64encode(file.getvalue()).decode()
    return f'<image width="{side}" height="{side}"{style} href="data:image/png;base64,{png}"/>'

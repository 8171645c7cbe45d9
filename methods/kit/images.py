"""Images of people's own data: read, or refused by name before any work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from methods.errors import InputError

SHOWN = 3  # faults named in a message; the rest are counted


def unreadable(path: Path) -> str:
    """Why an image cannot be used; empty where it can."""
    try:
        with Image.open(path) as image:
            image.verify()
    except FileNotFoundError:
        return f"{path.name} is not there"
    except (OSError, UnidentifiedImageError, SyntaxError, ValueError):
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

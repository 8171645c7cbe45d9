"""Folders of people's own data, read or refused by name before any work."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from ..errors import InputError
from .checkpoint import Checkpoint

SHOWN = 3  # faults named in a message; the rest are counted


def training_in(out: str, every: int, **about: Any) -> Checkpoint:
    """The checkpoint `training.pt` in the folder `out`; `about` must agree to resume from it.

    Raises:
        InputError: when there is no such folder.
    """
    if not Path(out).is_dir():
        raise InputError(f"out={out!r} is no folder; make it first")
    return Checkpoint(Path(out) / "training.pt", about, every=every)


def read_text(path: Path) -> str:
    """A text of UTF-8, with a mark of that or without; raises InputError where it is none."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path.name} cannot be read: {problem}") from problem


def read_json(path: Path) -> Any:
    """The value in a file, or of a `*.jsonl` the list of its values, one a line that is not blank.

    Raises:
        InputError: for a file that cannot be read or is no JSON.
    """
    text = read_text(path)
    try:
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        return json.loads(text)
    except ValueError as problem:
        raise InputError(f"{path.name} is no JSON: {problem}") from problem


def unreadable(path: Path) -> str:
    """Return why an image cannot be used, "" if it can. Half a JPEG opens, so all is decoded."""
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

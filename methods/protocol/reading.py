"""A method's code as it was read while it ran: what every line bound, what every block computes.

Made by ``python -m methods read METHOD --write`` and kept beside the method, so that a site can
show it without torch. A file is known by the SHA-256 of its source: a reading of another is stale.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import Field

from methods.protocol.base import Label, Sentence, Strict, Version, parse

FILE = "reading.json"
MAX_READING_BYTES = 4_000_000

Size = Annotated[int, Field(ge=0)]
Number = Annotated[int, Field(ge=1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
SourcePath = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(/[a-z][a-z0-9_]*)*\.py$")]


class Bound(Strict):
    """A tensor that a line bound: its name, shape, type and, where it has numbers, their range.

    ``others`` counts the further shapes that the same line bound to the name.
    """

    name: Label
    shape: tuple[Size, ...]
    dtype: Label
    low: float | None = None
    high: float | None = None
    others: Size = 0


class ReadLine(Strict):
    """What a statement bound; ``line`` is its last, where its comment stands."""

    line: Number
    tensors: Annotated[tuple[Bound, ...], Field(min_length=1)]


class Equation(Strict):
    """An equation in TeX, with the number it has in the source, if any."""

    tex: Sentence
    number: Label = ""


class Block(Strict):
    """A function or class, from its first line to its last, with the equations it implements."""

    name: Label
    first: Number
    last: Number
    equations: tuple[Equation, ...] = ()


class ReadFile(Strict):
    """One file of the method's folder."""

    path: SourcePath
    sha256: Digest
    blocks: tuple[Block, ...]
    lines: tuple[ReadLine, ...]


class Reading(Strict):
    """Files in the order in which the example first came to them."""

    v: Version = 1
    method: Label
    example: Label
    files: Annotated[tuple[ReadFile, ...], Field(min_length=1)]

    @classmethod
    def load(cls, folder: Path) -> Reading | None:
        """The reading kept in a method's folder, if there is one; raises ProtocolError."""
        kept = folder / FILE
        return parse(cls, kept.read_bytes(), MAX_READING_BYTES) if kept.is_file() else None

    def stale(self, folder: Path) -> list[str]:
        """Paths whose source in ``folder`` is not what was read."""
        return [one.path for one in self.files if digest(folder / one.path) != one.sha256]


def digest(source: Path) -> str:
    """The SHA-256 of a file, or of nothing where there is none."""
    data = source.read_bytes() if source.is_file() else b""
    return hashlib.sha256(data).hexdigest()

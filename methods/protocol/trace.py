"""A trace: a recorded forward pass, what every line bound, what every block computes.

Made by ``python -m methods read METHOD --write`` and kept beside the method, so that a site can
show it without torch. A file is known by the SHA-256 of its code: comments, docstrings and blank
lines may change, and lines are found again by their place among the lines of code.
"""

import ast
import hashlib
import io
import re
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from .base import Label, Sentence, Strict, Version, parse

TRACE_FILE = "trace.json"
MAX_TRACE_BYTES = 4_000_000

# "Equation 3: $s = ...$" in a docstring; the formula may run over several lines.
_EQUATION = re.compile(r"Equation(?: (?P<number>[\w.-]+))?: \$(?P<tex>[^$]+)\$", re.DOTALL)
_WITH_DOCSTRING = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

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


class TraceLine(Strict):
    """Names that a statement bound; ``line`` is its last, where its comment stands."""

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


class TraceFile(Strict):
    """One file of the method's folder."""

    path: SourcePath
    sha256: Digest  # of the code
    code: tuple[Number, ...] = ()  # which lines held code when it was recorded
    blocks: tuple[Block, ...]
    lines: tuple[TraceLine, ...]

    @model_validator(mode="after")
    def _recorded(self) -> Self:
        if self.code and not {line.line for line in self.lines} <= set(self.code):
            raise ValueError(f"{self.path}: a line was recorded that held no code")
        return self

    def on(self, source: Path) -> Self:
        """Return the file with the line numbers of ``source``, or itself if the code differs."""
        text = source.read_text() if source.is_file() else ""
        code, sha256 = code_of(text)
        if sha256 != self.sha256 or len(code) != len(self.code):
            return self
        now = dict(zip(self.code, code, strict=True))
        lines = tuple(line.model_copy(update={"line": now[line.line]}) for line in self.lines)
        return self.model_copy(update={"code": code, "blocks": blocks_of(text), "lines": lines})


class Trace(Strict):
    """Files in the order in which the example first came to them."""

    v: Version = 1
    method: Label
    example: Label
    files: Annotated[tuple[TraceFile, ...], Field(min_length=1)]

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Return the trace in a method's folder, if any, with its files' present line numbers.

        Raises ProtocolError for a file that is no trace.
        """
        path = folder / TRACE_FILE
        if not path.is_file():
            return None
        trace = parse(cls, path.read_bytes(), MAX_TRACE_BYTES)
        files = tuple(file.on(folder / file.path) for file in trace.files)
        return trace.model_copy(update={"files": files})

    def stale(self, folder: Path) -> list[str]:
        """Paths whose code in ``folder`` is not what was recorded."""
        return [file.path for file in self.files if digest(folder / file.path) != file.sha256]


def digest(source: Path) -> str:
    """The SHA-256 of a file's code, or of nothing where there is no file."""
    return code_of(source.read_text() if source.is_file() else "")[1]


@lru_cache(maxsize=256)  # a page of one file asks it of every file of the method
def code_of(text: str) -> tuple[tuple[int, ...], str]:
    """Return the numbers of the lines of code, from 1, and the SHA-256 of these lines.

    Comments, docstrings, blank lines and space at the end of a line are no code. Text that is no
    Python is code as it stands.
    """
    lines = text.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
        for node in ast.walk(ast.parse(text)):
            body = getattr(node, "body", None)
            if isinstance(node, _WITH_DOCSTRING) and body and ast.get_docstring(node) is not None:
                for row in range(body[0].lineno, (body[0].end_lineno or body[0].lineno) + 1):
                    lines[row - 1] = ""
    except (SyntaxError, tokenize.TokenError):
        lines = text.splitlines()
    code = [(row, line.rstrip()) for row, line in enumerate(lines, start=1) if line.strip()]
    text_of_code = "\n".join(line for _, line in code)
    return tuple(row for row, _ in code), hashlib.sha256(text_of_code.encode()).hexdigest()


@lru_cache(maxsize=256)
def blocks_of(text: str) -> tuple[Block, ...]:
    """Every function and class, in order; raises SyntaxError where the text is no Python."""
    return tuple(sorted(_blocks(ast.parse(text), ""), key=lambda block: block.first))


def _blocks(node: ast.AST, prefix: str) -> Iterator[Block]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef):
            continue
        name = prefix + child.name
        first = min(part.lineno for part in (child, *child.decorator_list))
        tex = equations(ast.get_docstring(child) or "")
        yield Block(name=name, first=first, last=child.end_lineno or first, equations=tex)
        yield from _blocks(child, f"{name}.")


def equations(docstring: str) -> tuple[Equation, ...]:
    """The equations in a docstring."""
    return tuple(
        Equation(tex=" ".join(match["tex"].split()), number=match["number"] or "")
        for match in _EQUATION.finditer(docstring)
    )

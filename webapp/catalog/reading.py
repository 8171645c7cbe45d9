"""A method's code as a page shows it: highlighted, with equations and recorded shapes.

The recording lies beside the method, in a file that `python -m methods read METHOD --write` made:
no code of the method is run here. A file whose source has changed since is shown without it.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from methods import registry
from methods.charts import tensor
from methods.protocol import TRACE_FILE, Block, Equation, ProtocolError, Trace
from methods.spec import Method
from webapp.runs.texts import translate_spec

log = logging.getLogger(__name__)

_WORDS = re.compile(r"(?<=>)[^<>]+(?=</(?:text|title|desc)>)")  # of a drawing
LEVELS = {"code": "Code", "equations": "Equations", "shapes": "Shapes"}


@dataclass(frozen=True)
class SourceLine:
    """A line of source: its number, its tokens as HTML, and the values it bound."""

    number: int
    html: str
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """Consecutive lines: a block with its equations, or the lines between two blocks."""

    rows: tuple[SourceLine, ...]
    block: Block | None = None


@dataclass(frozen=True)
class File:
    """One file of a method."""

    path: str
    anchor: str
    parts: tuple[Part, ...]
    stale: bool


def _trace(folder: Path) -> Trace | None:
    """Return the trace in a method's folder, or None if the file is damaged."""
    try:
        return Trace.load(folder)
    except ProtocolError as error:
        log.warning("The trace of %s is left out: %s", folder.name, error)
        return None


def paths(method: Method) -> tuple[str, ...]:
    """The recorded files of a method, in the order of `python -m methods read`, or none.

    Behind them what counts the answers to its claims, which no example runs.
    """
    folder = registry.folder(method.slug)
    reading = _trace(folder)
    recorded = [recording.path for recording in reading.files] if reading else []
    counting = [claim.counting_file for claim in method.claims if recorded]
    return tuple(
        path for path in dict.fromkeys([*recorded, *counting]) if (folder / path).is_file()
    )


def file(slug: str, path: str, level: str) -> File:
    """One of the `paths` of a method at a level."""
    folder = registry.folder(slug)
    written = tuple((folder / name).stat().st_mtime_ns for name in (TRACE_FILE, path))
    return _file(folder, path, level, written)


@lru_cache(maxsize=128)
def _file(folder: Path, path: str, level: str, _written: tuple[int, ...]) -> File:
    """The times of the files are an argument so that a page follows its sources."""
    trace = _trace(folder)
    read = (
        next((recording for recording in trace.files if recording.path == path), None)
        if trace
        else None
    )
    stale = trace is not None and path in trace.stale(folder)
    recorded = read if not stale else None
    lines = recorded.lines if recorded and level == "shapes" else ()
    bound = {line.line: tuple(map(tensor, line.tensors)) for line in lines}
    rows = [
        SourceLine(number, html, bound.get(number, ()))
        for number, html in enumerate(_highlighted((folder / path).read_text()), start=1)
    ]
    blocks = recorded.blocks if recorded and level == "equations" else ()
    anchor = path.removesuffix(".py").replace("/", "-")
    return File(path, anchor, tuple(_parts(blocks, rows)), stale)


FIGURE = "mechanism.svg"  # in a method's folder: how it works, in one drawing
EQUATIONS = 8  # shown on a method's page; the rest stand beside the code


def mechanism(slug: str) -> str:
    """The drawing of how a method works as SVG, its words in the language of the page.

    "" if the method's folder has none.
    """
    path = registry.folder(slug) / FIGURE
    drawn = path.read_text("utf-8") if path.is_file() else ""
    return _WORDS.sub(lambda words: translate_spec(words[0]), drawn)


def equations(slug: str) -> tuple[tuple[Equation, str, str], ...]:
    """The first equations of a method in the order of its code, those with a number before all.

    Each with the file and the block that implement it.
    """
    folder = registry.folder(slug)
    trace = folder / TRACE_FILE
    return _equations(folder, trace.stat().st_mtime_ns) if trace.is_file() else ()


@lru_cache(maxsize=32)
def _equations(folder: Path, _written: int) -> tuple[tuple[Equation, str, str], ...]:
    trace = _trace(folder)
    by_tex = {
        equation.tex: (equation, read.path, block.name)
        for read in (trace.files if trace else ())
        for block in read.blocks
        for equation in block.equations
    }
    return tuple(sorted(by_tex.values(), key=lambda placed: not placed[0].number)[:EQUATIONS])


def _parts(blocks: Iterable[Block], rows: list[SourceLine]) -> Iterator[Part]:
    """Split the file at blocks that have equations; a nested block belongs to the outer one."""
    done = 0
    for block in blocks:
        if not block.equations or block.first <= done:
            continue
        if block.first - 1 > done:
            yield Part(tuple(rows[done : block.first - 1]))
        yield Part(tuple(rows[block.first - 1 : block.last]), block)
        done = block.last
    if done < len(rows):
        yield Part(tuple(rows[done:]))


def _highlighted(source: str) -> list[str]:
    """Return the lines of Python source, each as well-formed HTML."""
    markup: str = highlight(
        source, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True, classprefix="py-")
    )
    return markup.removesuffix("\n").split("\n")

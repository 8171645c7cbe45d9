"""A method's code as a page shows it: highlighted, with equations and recorded shapes beside it.

What was recorded lies beside the method, in a file that `python -m methods read METHOD --write`
made: nothing of the method is run here. A file whose source has changed since is shown without.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from methods import registry
from methods.charts import tensor
from methods.protocol import TRACE_FILE, Equation, ProtocolError, Trace, TraceFile
from webapp.ui.formulas import mathml

log = logging.getLogger(__name__)

LEVELS = {
    "code": "Code",
    "equations": "Equations",
    "shapes": "Shapes",
}


@dataclass(frozen=True)
class SourceLine:
    """One line: its number, its tokens as HTML, what it bound."""

    number: int
    html: str
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Formula:
    """An equation as MathML (or, where it cannot be made, as TeX) with its number in the source."""

    html: str
    number: str


@dataclass(frozen=True)
class Part:
    """Lines that belong together: a block with its equations, or what stands between two."""

    rows: tuple[SourceLine, ...]
    formulas: tuple[Formula, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class File:
    """One file of a method."""

    path: str
    anchor: str
    parts: tuple[Part, ...]
    stale: bool


def _trace(folder: Path) -> Trace | None:
    """What is kept in a method's folder; none where the file is damaged: the page does without."""
    try:
        return Trace.load(folder)
    except ProtocolError as error:
        log.warning("The trace of %s is left out: %s", folder.name, error)
        return None


def paths(slug: str) -> tuple[str, ...]:
    """The recorded files of a method, in the order of `python -m methods read`, or none.

    Behind them what counts the answers to its claims, which no example runs. Raises
    UnknownNameError for a method that is not there.
    """
    folder = registry.folder(slug)
    reading = _trace(folder)
    recorded = [one.path for one in reading.files] if reading else []
    counting = [claim.counting_file for claim in registry.get(slug).claims if recorded]
    return tuple(
        path for path in dict.fromkeys([*recorded, *counting]) if (folder / path).is_file()
    )


def file(slug: str, path: str, level: str) -> File:
    """One of the `paths` of a method at a level."""
    folder = registry.folder(slug)
    kept, source = folder / TRACE_FILE, folder / path
    return _shown(folder, path, level, kept.stat().st_mtime_ns, source.stat().st_mtime_ns)


@lru_cache(maxsize=128)
def _shown(folder: Path, path: str, level: str, _read: int, _written: int) -> File:
    """The times of the files are arguments so that a page follows its sources."""
    reading = _trace(folder)
    if reading is None:
        raise FileNotFoundError(folder / TRACE_FILE)
    recorded = next((one for one in reading.files if one.path == path), None)
    return _file(path, recorded, folder / path, level, stale=path in reading.stale(folder))


FIGURE = "mechanism.svg"  # in a method's folder: how it works, in one drawing
EQUATIONS = 8  # shown on a method's page; the rest stand beside the code


@dataclass(frozen=True)
class PlacedFormula:
    """An equation, and the file and block that implement it."""

    formula: Formula
    path: str
    block: str


def mechanism(slug: str) -> str:
    """The drawing of how a method works as SVG, or "" where its folder has none."""
    path = registry.folder(slug) / FIGURE
    return path.read_text() if path.is_file() else ""


def equations(slug: str) -> tuple[PlacedFormula, ...]:
    """The first equations of a method in the order of its code, those with a number before all."""
    folder = registry.folder(slug)
    kept = folder / TRACE_FILE
    return _equations(folder, kept.stat().st_mtime_ns) if kept.is_file() else ()


@lru_cache(maxsize=32)
def _equations(folder: Path, _read: int) -> tuple[PlacedFormula, ...]:
    trace = _trace(folder)
    found = {
        one.tex: PlacedFormula(formula(one), read.path, block.name)
        for read in (trace.files if trace else ())
        for block in read.blocks
        for one in block.equations
    }
    ordered = sorted(found.values(), key=lambda one: not one.formula.number)
    return tuple(ordered[:EQUATIONS])


def _file(path: str, read: TraceFile | None, source: Path, level: str, *, stale: bool) -> File:
    bound = {line.line: line.tensors for line in read.lines} if read and level == "shapes" else {}
    rows = [
        SourceLine(line, html, () if stale else tuple(tensor(one) for one in bound.get(line, ())))
        for line, html in enumerate(_highlighted(source.read_text()), start=1)
    ]
    parts = (
        tuple(_parts(read, rows))
        if read and level == "equations" and not stale
        else (Part(tuple(rows)),)
    )
    anchor = path.removesuffix(".py").replace("/", "-")
    return File(path, anchor, parts, stale)


def _parts(read: TraceFile, rows: list[SourceLine]) -> Iterator[Part]:
    """The file cut at the blocks that have equations; a block within one belongs to it."""
    done = 0
    for block in read.blocks:
        if not block.equations or block.first <= done:
            continue
        if block.first - 1 > done:
            yield Part(tuple(rows[done : block.first - 1]))
        made = tuple(formula(one) for one in block.equations)
        yield Part(tuple(rows[block.first - 1 : block.last]), made, block.name)
        done = block.last
    if done < len(rows):
        yield Part(tuple(rows[done:]))


def _highlighted(source: str) -> list[str]:
    """The lines of Python source, each a piece of HTML that is whole by itself."""
    made: str = highlight(
        source, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True, classprefix="py-")
    )
    return made.removesuffix("\n").split("\n")


def formula(equation: Equation) -> Formula:
    """An equation for a page."""
    made = mathml(equation.tex, block=True)
    return Formula(made or f'<code class="tex">{escape(equation.tex)}</code>', equation.number)

"""Runs a method's example line by line, and keeps what every line bound to a name."""

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from .. import registry
from ..errors import InputError
from ..protocol import Bound, Trace, TraceFile, TraceLine
from ..protocol.trace import blocks_of, code_of
from ..runner import seed_everything
from ..spec import Case, Method
from .source import SourceFile, Statement, read

VISITS = 40  # of a line, whose values are looked at; shapes are compared at every visit
_HIDDEN = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>", "<module>"}

Event = Callable[[FrameType, str, Any], Any]


@dataclass
class Seen:
    """A tensor that a line bound, over all visits."""

    shapes: list[tuple[int, ...]] = field(default_factory=list)
    dtype: str = ""
    low: float = math.inf
    high: float = -math.inf
    visits: int = 0

    def look(self, tensor: Tensor) -> None:
        """Take another visit into account."""
        shape = tuple(tensor.shape)
        if shape not in self.shapes:
            self.shapes.append(shape)
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        self.visits += 1
        if self.visits > VISITS or not tensor.numel() or tensor.is_complex():
            return
        if tensor.device.type == "meta" or type(tensor) not in (Tensor, torch.nn.Parameter):
            return  # it holds no numbers, or it is a stand-in that a compiler looks through
        numbers = tensor.detach().double()
        numbers = numbers[numbers.isfinite()]
        if numbers.numel():
            low, high = map(float, numbers.aminmax())
            self.low, self.high = min(low, self.low), max(high, self.high)

    def bound(self, name: str) -> Bound:
        """Return the record that is kept, under the name that the line gave the tensor."""
        ends = self.low, self.high
        low, high = (float(f"{x:.3g}") if math.isfinite(x) else None for x in ends)
        shape, *others = self.shapes
        return Bound(
            name=name, shape=shape, dtype=self.dtype, low=low, high=high, others=len(others)
        )


@dataclass
class Recording:
    """Shapes and lines recorded of a method's folder."""

    folder: Path
    sources: dict[str, SourceFile] = field(default_factory=dict)
    seen: dict[tuple[str, int], dict[str, Seen]] = field(default_factory=dict)
    comments: dict[tuple[str, int], str] = field(default_factory=dict)  # "" agrees, or why not

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Event | None:
        """The tracer of a call: None for code that is not of the folder."""
        code = frame.f_code
        if event != "call" or code.co_name in _HIDDEN:
            return None
        path = Path(code.co_filename)
        if not path.is_relative_to(self.folder):
            return None
        name = path.relative_to(self.folder).as_posix()
        if name not in self.sources:
            self.sources[name] = read(path)
        call = _Call(self, name)
        head = self.sources[name].statements.get(code.co_firstlineno)
        for argument in code.co_varnames[: code.co_argcount]:
            if head is not None and isinstance(frame.f_locals.get(argument), Tensor):
                call.keep(head, argument, frame.f_locals[argument])
        return call


@dataclass
class _Call:
    """Traces one call: what each of its statements bound, once the statement has run."""

    recording: Recording
    name: str
    known: dict[str, int] = field(default_factory=dict)  # what sizes in comments mean
    current: Statement | None = None

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Event:
        """The tracer of its lines."""
        statement = self.current
        if event == "line":
            here = self.recording.sources[self.name].statements.get(frame.f_lineno)
            if here is not statement or (here is not None and frame.f_lineno == here.first):
                self.bind(statement, frame)
                self.current = here
        elif event == "return":
            if statement is not None and statement.returns and isinstance(arg, Tensor):
                self.keep(statement, "return", arg)
                self.compare(statement, [("returned", arg)], frame)
            else:
                self.bind(statement, frame)
        return self

    def bind(self, statement: Statement | None, frame: FrameType) -> None:
        """Keep the tensors that a statement bound to its names."""
        if statement is None or statement.returns:
            return
        values = [(bound, _value(frame, bound)) for bound in statement.names]
        tensors = [(bound, value) for bound, value in values if isinstance(value, Tensor)]
        for bound, tensor in tensors:
            self.keep(statement, bound, tensor)
        if tensors:
            self.compare(statement, tensors, frame)

    def keep(self, statement: Statement, bound: str, tensor: Tensor) -> None:
        """Take a tensor into account, under the name that a statement gave it."""
        line = self.recording.seen.setdefault((self.name, statement.last), {})
        line.setdefault(bound, Seen()).look(tensor)

    def compare(
        self, statement: Statement, tensors: list[tuple[str, Tensor]], frame: FrameType
    ) -> None:
        """Hold what was bound to the shapes that the comment states."""
        place, comments, known = (self.name, statement.last), self.recording.comments, self.known
        if not statement.shapes or comments.get(place):
            return
        # Loops give a size another value each time.
        known |= {name: value for name, value in frame.f_locals.items() if type(value) is int}
        shapes = statement.shapes * (len(tensors) if len(statement.shapes) == 1 else 1)
        comments[place] = ""
        for (bound, tensor), shape in zip(tensors, shapes, strict=False):
            before = ", ".join(f"{size} = {known[size]}" for size in shape.sizes if size in known)
            if shape.disagrees(found := tuple(tensor.shape), known):
                where = f" where {before}" if before else ""
                comments[place] = f"{bound} is {found}, the comment says {shape}{where}"
                return


def _value(frame: FrameType, bound: str) -> object:
    base, dot, attribute = bound.partition(".")
    value = frame.f_locals.get(base)
    # From the instance's own dictionary: asking for the attribute could run code of a property.
    return vars(value).get(attribute) if dot and hasattr(value, "__dict__") else value


def record(method: Method) -> Recording:
    """Run the method's example under the tracer, on one thread, with fixed seeds.

    Raises:
        InputError: when the method names no example.
    """
    if not method.example:
        raise InputError(f"{method.slug} names no example to read its code by")
    example = registry.load(method.slug, method.example)
    seen = Recording(registry.folder(method.slug).resolve())
    threads, before = torch.get_num_threads(), sys.gettrace()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]), _empty_is_nan():
        seed_everything(0)
        sys.settrace(seen)
        try:
            example()
        finally:
            sys.settrace(before)
            torch.set_num_threads(threads)
    return seen


@contextmanager
def _empty_is_nan() -> Iterator[None]:
    """Fill empty buffers with NaN: their content before a write is no value of the method's."""
    on = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(on, warn_only=warn)


def reading_order(folder: Path, paths: Iterable[str]) -> list[str]:
    """Sort files as the method's README lists them where it says in which order to read.

    A file that it does not name keeps its place behind those, and a folder stands for its files.
    """
    readme = folder / "README.md"
    text = readme.read_text("utf-8") if readme.is_file() else ""
    advice = next(iter(re.findall(r"^## Reading.*|^Read in this order.*", text, re.M | re.S)), "")
    names = [name.removesuffix(".py").rstrip("/") for name in re.findall(r"`([\w./]+)`", advice)]

    def place(path: str) -> int:
        name = path.removesuffix(".py")
        given = [i for i, one in enumerate(names) if name == one or name.startswith(f"{one}/")]
        return min(given, default=len(names))

    return sorted(paths, key=place)


def trace(method: Method, seen: Recording) -> Trace:
    """Return the recording as it is stored beside the method."""
    files = []
    for path in reading_order(seen.folder, seen.sources):
        source = seen.sources[path]
        lines = [
            TraceLine(line=line, tensors=tuple(one.bound(name) for name, one in found.items()))
            for (file, line), found in sorted(seen.seen.items())
            if file == path
        ]
        code, sha256 = code_of(source.text)
        blocks = blocks_of(source.text)
        files.append(
            TraceFile(path=path, sha256=sha256, code=code, blocks=blocks, lines=tuple(lines))
        )
    return Trace(method=method.slug, example=method.example, files=tuple(files))


def shape_cases(seen: Recording) -> list[Case]:
    """Every shape comment that the example came by: whether what was recorded agrees."""
    return [
        Case(not why, True, label=f"{name}:{line}{': ' + why if why else ''}")
        for (name, line), why in seen.comments.items()
    ]

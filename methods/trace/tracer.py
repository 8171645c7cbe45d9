"""Runs a method's example line by line, and keeps what every line bound to a name."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from methods import registry
from methods.errors import InputError
from methods.protocol import Bound, Trace, TraceFile, TraceLine
from methods.protocol.trace import blocks_of, code_of
from methods.runner import seed_everything
from methods.spec import Case, Method
from methods.trace.source import SourceFile, Statement, read

VISITS = 40  # of a line, whose values are looked at; shapes are compared at every visit
_HIDDEN = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>", "<module>"}

Event = Callable[[FrameType, str, Any], Any]


@dataclass
class Seen:
    """A tensor that a line bound, over all visits."""

    shapes: list[tuple[int, ...]] = field(default_factory=list)
    dtype: str = ""
    low: float | None = None
    high: float | None = None
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
        with torch.no_grad():
            numbers = tensor.detach().double()
            numbers = numbers[numbers.isfinite()]
            if numbers.numel():
                low, high = (float(one) for one in numbers.aminmax())
                self.low = low if self.low is None else min(low, self.low)
                self.high = high if self.high is None else max(high, self.high)

    def bound(self, name: str) -> Bound:
        """As it is kept, under the name that the line gave it."""
        low, high = (None if x is None else float(f"{x:.3g}") for x in (self.low, self.high))
        shape, *others = self.shapes
        return Bound(
            name=name, shape=shape, dtype=self.dtype, low=low, high=high, others=len(others)
        )


@dataclass
class Recording:
    """What was seen of a method's folder."""

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
        return self._local(name, self.sources[name], frame)

    def _local(self, name: str, source: SourceFile, frame: FrameType) -> Event:
        known: dict[str, int] = {}
        current: Statement | None = None
        arguments = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        head = source.statements.get(frame.f_code.co_firstlineno)
        for argument in arguments:
            if head is not None and isinstance(frame.f_locals.get(argument), Tensor):
                self._keep(name, head, argument, frame.f_locals[argument])

        def step(frame: FrameType, event: str, arg: Any) -> Event:
            nonlocal current
            if event == "line":
                here = source.statements.get(frame.f_lineno)
                if here is not current or (here is not None and frame.f_lineno == here.first):
                    self._bound(name, current, frame, known)
                    current = here
            elif event == "return":
                if current is not None and current.returns and isinstance(arg, Tensor):
                    self._keep(name, current, "return", arg)
                    self._compare(name, current, [("returned", arg)], frame, known)
                else:
                    self._bound(name, current, frame, known)
            return step

        return step

    def _bound(
        self, name: str, statement: Statement | None, frame: FrameType, known: dict[str, int]
    ) -> None:
        if statement is None or statement.returns:
            return
        tensors = []
        for bound in statement.names:
            value = _value(frame, bound)
            if isinstance(value, Tensor):
                self._keep(name, statement, bound, value)
                tensors.append((bound, value))
        if tensors:
            self._compare(name, statement, tensors, frame, known)

    def _keep(self, name: str, statement: Statement, bound: str, tensor: Tensor) -> None:
        line = self.seen.setdefault((name, statement.last), {})
        line.setdefault(bound, Seen()).look(tensor)

    def _compare(
        self,
        name: str,
        statement: Statement,
        tensors: list[tuple[str, Tensor]],
        frame: FrameType,
        known: dict[str, int],
    ) -> None:
        """Hold what was bound to the shapes that the comment states."""
        place = (name, statement.last)
        if not statement.shapes or self.comments.get(place):
            return
        for size, value in frame.f_locals.items():
            if isinstance(value, int) and not isinstance(value, bool):
                known[size] = value  # loops give it another each time
        shapes = statement.shapes * (len(tensors) if len(statement.shapes) == 1 else 1)
        self.comments[place] = ""
        for (bound, tensor), shape in zip(tensors, shapes, strict=False):
            before = ", ".join(f"{size} = {known[size]}" for size in shape.sizes if size in known)
            if shape.disagrees(tuple(tensor.shape), known):
                self.comments[place] = (
                    f"{bound} is {tuple(tensor.shape)}, the comment says {shape}"
                    + (f" where {before}" if before else "")
                )
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
    """What a buffer held before it is written is no value of the method's: torch makes it NaN."""
    on = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(on, warn_only=warn)


def trace(method: Method, seen: Recording) -> Trace:
    """What was seen, as it is kept beside the method."""
    files = []
    for path, source in seen.sources.items():
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

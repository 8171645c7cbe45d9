"""``read``: a method's source beside its equations and the shapes its example had on each line.

Runs the method's small example under a line tracer. ``code`` is the source alone; ``equations``
puts the equation of each block before it; ``shapes`` lists after each line what it bound.
"""

import argparse
import sys
from typing import Literal, get_args

from assay_common.files import write_whole

from .. import registry
from ..charts import tensor
from ..protocol import TRACE_FILE, Trace, TraceFile

HELP = "read a method's code with its equations and recorded shapes"
Level = Literal["code", "equations", "shapes"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the method's name, the level, and where the trace goes."""
    parser.add_argument("method", metavar="METHOD")
    parser.add_argument("--level", choices=get_args(Level), default="shapes")
    parser.add_argument("--json", action="store_true", help="all that was recorded, as JSON")
    parser.add_argument("--write", action="store_true", help=f"into the method's {TRACE_FILE}")


def main(args: argparse.Namespace) -> int:
    """Run the example and print what it shows."""
    method = registry.get(args.method)
    # Here, not above: it imports torch, and an unknown name is answered at once without it.
    from ..trace import tracer  # noqa: PLC0415

    trace = tracer.trace(method, tracer.record(method))
    if args.write:
        path = registry.folder(method.slug) / TRACE_FILE
        write_whole(path, as_json(trace).encode())
        sys.stderr.write(f"{sum(len(file.lines) for file in trace.files)} lines in {path.name}\n")
    if args.json:
        sys.stdout.write(as_json(trace))
    elif not args.write:
        for file in trace.files:
            source = (registry.folder(method.slug) / file.path).read_text()
            sys.stdout.write("\n".join(in_words(file, source, args.level)) + "\n\n")
    return 0


def as_json(trace: Trace) -> str:
    """The trace as JSON, a line for each line of code, so that changes can be read."""
    text = trace.model_dump_json(exclude_defaults=True)
    return text.replace('{"line":', '\n{"line":').replace('{"path":', '\n{"path":') + "\n"


def in_words(file: TraceFile, source: str, level: Level) -> list[str]:
    """A file for reading on a terminal."""
    bound = {line.line: line.tensors for line in file.lines}
    heads = {block.first: block.equations for block in file.blocks}
    shown = [f"--- {file.path}"]
    for index, text in enumerate(source.splitlines(), start=1):
        indent = " " * (len(text) - len(text.lstrip()))
        if level == "equations":
            for equation in heads.get(index, ()):
                mark = f"({equation.number}) " if equation.number else ""
                shown.append(f"{'':4}  {indent}{mark}{equation.tex}")
        shown.append(f"{index:4}  {text}".rstrip())
        if level == "shapes":
            shown += [f"{'':4}  {indent}    | {tensor(one)}" for one in bound.get(index, ())]
    return shown

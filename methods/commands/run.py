"""``run``: measure one benchmark."""

import argparse
import contextlib
import sys
from pathlib import Path

from assay_common.text import clean

from .. import registry
from ..context import Emit
from ..errors import InputError, ParameterError, ParameterProblem
from ..output import JsonFile, JsonLines, Plots, Words
from ..protocol import Cancelled, Failed, Strict
from ..spec import PRESETS

HELP = "measure a benchmark"
MAX_SEED = 2**63 - 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the benchmark, its parameters and where the events go."""
    parser.add_argument("name", metavar="METHOD.BENCHMARK")
    sizes = "; ".join(f"{name}: {what}" for name, what in PRESETS.items())
    parser.add_argument("--preset", default="full", help=f"{sizes} (default: full)")
    parser.add_argument(
        "--set", metavar="K=V", action="append", default=[], help="a parameter; lists as 512,1024"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--seed", default="0", help="a whole number (default: 0)")
    parser.add_argument("--json", metavar="FILE", help="events as JSON lines; - as they happen")
    parser.add_argument("--plots", metavar="DIR", help="charts as SVG into this folder")


def main(args: argparse.Namespace) -> int:
    """Run the benchmark; the runner's exit code."""
    if args.json != "-":
        return _measure(args, Words(sys.stdout, sys.stderr).event)
    lines = JsonLines(sys.stdout)
    with contextlib.redirect_stdout(sys.stderr):  # what libraries print must not be read as events
        try:
            return _measure(args, lines.event)
        except InputError as error:
            lines.event(Failed(kind=error.kind, message=clean(str(error))[:2_000]))
            raise
        except KeyboardInterrupt:  # before the runner started, which reports interrupts itself
            lines.event(Cancelled(reason="interrupted"))
            raise


def _measure(args: argparse.Namespace, first: Emit) -> int:
    method, benchmark = registry.find(args.name)
    params = benchmark.resolve(args.preset, settings(args.set))
    seed = _seed(args.seed)
    # Here, not above: it imports torch, and wrong input is answered at once without it.
    from .. import runner  # noqa: PLC0415

    if runner.choose_device(args.device, benchmark.devices) == "cuda":
        params = benchmark.resolve(args.preset, settings(args.set), device="cuda")
    device = runner.prepare(method, benchmark, params, args.device)
    outputs = [first]  # and now files, so that a run that is refused makes no folder
    if args.json not in (None, "-"):
        outputs.append(JsonFile(Path(args.json)).event)
    if args.plots:
        outputs.append(Plots(Path(args.plots)).event)

    def emit(body: Strict) -> None:
        for output in outputs:
            output(body)

    return runner.run(
        method, benchmark, params, device=device, seed=seed, preset=args.preset, emit=emit
    )


def settings(pairs: list[str]) -> dict[str, str]:
    """``["n=4096"]`` as a mapping; raises ParameterError for anything but ``name=value``, once."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            problem = ParameterProblem("--set", repr(pair[:80]), "name=value", "not a setting")
            raise ParameterError([problem])
        if name in values:
            raise ParameterError([ParameterProblem(name, repr(value[:80]), "", "given twice")])
        values[name] = value
    return values


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > MAX_SEED:
        problem = ParameterProblem("seed", repr(text[:80]), f"0 to {MAX_SEED}", "not a seed")
        raise ParameterError([problem])
    return int(text)

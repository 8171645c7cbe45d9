"""``check``: the method's own table of checks, each with its bound and what was measured."""

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from assay_common.terminal import table
from assay_common.text import one_line

from .. import registry
from ..charts import check_value
from ..context import check_result
from ..errors import InputError, UnknownNameError
from ..interrupts import Interruptible
from ..protocol import TRACE_FILE, Trace
from ..spec import Case, Check, Method
from ..terminal import ProgressBar, check_line

HELP = "run a method's table of correctness checks"
TRACE = Check(
    name="trace",
    title="Shape comments hold in the example; what is kept of it is of this source",
    bound="every comment",
    entry="trace:cases",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One check after it has run: every case, or why it could not be run."""

    check: Check
    cases: tuple[Case, ...]
    error: str = ""

    @property
    def passed(self) -> bool:
        """True if something was measured and all of it met its bound."""
        return not self.error and bool(self.cases) and all(case.passed for case in self.cases)

    @property
    def worst(self) -> Case | None:
        """The case nearest to, or furthest over, its bound."""
        return max(self.cases, key=lambda case: case.strain, default=None)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the method's name, the device and the checks to run."""
    parser.add_argument("method", metavar="METHOD")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--only", metavar="CHECK", action="append", help="this check only")


def main(args: argparse.Namespace) -> int:
    """Print the table, interrupted too; 1 when a check fails."""
    import torch  # noqa: PLC0415 - slow to import

    from .. import runner  # noqa: PLC0415 - imports torch

    torch.set_num_threads(1)  # checks are small: more threads would only wait for each other
    method = registry.get(args.method)
    checks = _chosen(method, args.only)
    device = runner.choose_device(args.device)
    bar, rows = ProgressBar(), list[Row]()
    with Interruptible() as interrupts, contextlib.suppress(KeyboardInterrupt):
        for done, check in enumerate(checks):  # interrupted, what has been measured is told
            bar.update(done, len(checks), check.name)
            row = measure(method, check, device)
            with interrupts.held():  # one that a callback swallowed comes here
                rows.append(row)
    bar.clear()
    left = [Row(check, (), "interrupted before it ended") for check in checks[len(rows) :]]
    sys.stdout.write(in_words([*rows, *left]) + "\n")
    if left:
        return runner.EXIT_INTERRUPTED
    return runner.EXIT_OK if all(row.passed for row in rows) else runner.EXIT_CHECK


def measure(method: Method, check: Check, device: str) -> Row:
    """Run one check; a check that raises is a check that fails, with the reason."""
    cases: list[Case] = []
    try:
        if check is TRACE:
            cases.extend(trace_cases(method))
        else:
            cases.extend(registry.load(method.slug, check.entry)(device))
    except Exception as error:  # the table says which check broke and the others still run
        reason = one_line(f"{type(error).__name__}: {error}")[:300]
        return Row(check, tuple(cases), reason)
    return Row(check, tuple(cases), "" if cases else "it measured nothing")


def trace_cases(method: Method) -> Iterator[Case]:
    """Every shape comment against the example, and the trace kept beside the method."""
    from ..trace import tracer  # noqa: PLC0415 - imports torch

    seen = tracer.record(method)
    yield from tracer.shape_cases(seen)
    folder = registry.folder(method.slug)
    trace = Trace.load(folder)
    stale = ["any file"] if trace is None else trace.stale(folder)
    why = f": not of {', '.join(stale)}; python -m {registry.PACKAGE} read {method.slug} --write"
    yield Case(not stale, True, label=TRACE_FILE + (why if stale else ""))


def in_words(rows: Iterable[Row]) -> str:
    """The table of checks, then every case that failed."""
    shown, failures, passed = [], [], 0
    for row in rows:
        worst, check = row.worst, row.check
        passed += row.passed
        outcome = f"{check_value(worst.measured)}{_where(row, worst)}" if worst else row.error
        found = "passed" if row.passed else "FAILED"
        shown.append((check.name, check.title, check.bound, outcome, found))
        failed = (case for case in row.cases if not case.passed)
        failures += [check_line(check_result(check.name, case)) for case in failed]
        if row.error:
            failures.append(f"FAILED  {check.name}: {row.error}")
    found = table(("check", "what", "bound", "measured (worst)", ""), shown)
    parts = (found, "\n".join(failures), f"{passed} of {len(shown)} checks passed")
    return "\n\n".join(filter(None, parts))


def _chosen(method: Method, only: list[str] | None) -> tuple[Check, ...]:
    if not method.checks:
        raise InputError(f"{method.slug} declares no checks")
    checks = (*method.checks, TRACE) if method.example else method.checks
    by_name = {check.name: check for check in checks}
    for name in only or ():
        if name not in by_name:
            raise UnknownNameError(f"check of {method.slug}", name, by_name)
    return tuple(by_name[name] for name in only) if only else checks


def _where(row: Row, case: Case) -> str:
    label = f" ({case.label})" if case.label else ""
    return f"{label} of {len(row.cases)}" if len(row.cases) > 1 else label

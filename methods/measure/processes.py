"""A benchmark of time runs whole in fresh processes, one after another; their runs are joined.

Two processes that run the same code differ: memory lies elsewhere, another clock is chosen. What
one process measures does not show that, so each process is one observation (see `statistics`).
Within each, variants are interleaved (see `timing`).

Processes are added until the interval of every ratio is narrow enough or the time is up. Whoever
looks at intervals again and again and stops when they are narrow, stops most often when they happen
to be too narrow: at 95 % each, fewer than 95 of 100 hold the truth in the end. So they are looked
at after one, two and four times the least number of processes, and the five errors in a hundred
that are allowed in all are spent over these looks (Pocock 1977; Lan and DeMets 1983): intervals
that would stop it early are drawn wider, and the last look has whatever is left. By Bonferroni's
inequality all errors together are at most those allowed, whatever the scatter between processes is.
A look that ends measuring for another reason (time, the most processes) was to be the last whatever
it shows, so it has the rest.

Where a claim of the source waits for the answer, measuring also goes on until the claim's own
margin is resolved: until its interval lies wholly above the claim's bound or wholly below it.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Literal

from .. import protocol
from ..context import Context
from ..errors import MethodsError
from ..params import TimedParams
from ..spec import Claim
from . import environment
from .statistics import CONFIDENCE, geometric_interval, hold_together, point_of_runs

MOST = 4  # times the least number of runs
SHARES = {1: 0.2, 2: 0.3}  # of all errors, at the first looks: after 1 and 2 times the least number


def confidence_at(runs: int, least: int, *, last: bool) -> float | None:
    """Confidence of the intervals that are looked at after `runs`; None where no look is due.

    At least ``least`` runs are measured. The last look has what those before it have left.
    """
    shares = {times * least: share for times, share in SHARES.items()}
    left = 1 - sum(share for due, share in shares.items() if due < runs)
    share = left if last else shares.get(runs)
    return None if share is None else 1 - share * (1 - CONFIDENCE)


# Doubts about one process; they stand where more than a quarter of the processes raise them.
_LOCAL = (protocol.Flag.ONE_PROCESS, protocol.Flag.FEW)


class ProcessFailedError(MethodsError):
    """A measuring process ended without a result; ``body`` describes how."""

    def __init__(self, body: protocol.Failed) -> None:
        self.body = body
        super().__init__(body.message)


@dataclass(frozen=True, slots=True)
class Measured:
    """Number of processes that measured, 0 where the run itself did, and why no more."""

    processes: int
    stopped: Literal["", "narrow", "time", "most"]


def measure(ctx: Context, name: str, params: TimedParams, claims: Sequence[Claim] = ()) -> Measured:
    """Run "method.benchmark" in as many processes as it needs; its series go to the context.

    It needs as many as make every ratio exact enough and answer all of its `claims`. Checks, logs
    and artefacts are those of the first process.

    Raises:
        ProcessFailedError: where a process did not end with a result.
    """
    begun = time.monotonic()
    runs: list[list[protocol.Series]] = []
    with _bytecode() as shared:
        while True:
            number = len(runs)
            series = []
            for body in _events(ctx, name, params, number, shared):
                if isinstance(body, protocol.Series):
                    series.append(body)
                else:
                    _relay(ctx, body, number, max(params.processes, number + 1))
            runs.append(series)
            last = _last(params, len(runs), time.monotonic() - begun)
            confidence = confidence_at(len(runs), params.processes, last=bool(last))
            joined = join(runs, confidence or CONFIDENCE)
            ctx.adopt(joined)
            narrow = confidence and widest(joined) <= params.precision
            if confidence and narrow and resolved(joined, claims, confidence):
                return Measured(len(runs), "narrow")
            if last:
                return Measured(len(runs), last)


@contextmanager
def _bytecode() -> Iterator[dict[str, str]]:
    """Variables by which processes share compiled modules although none may stand by the sources.

    Else each compiles torch and transformers anew, which takes longer than what it measures. The
    layout of its memory is its own all the same.
    """
    if not sys.dont_write_bytecode:
        yield {}
        return
    with TemporaryDirectory(prefix="assay-bytecode-") as folder:
        yield {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}


def resolved(series: Sequence[protocol.Series], claims: Sequence[Claim], confidence: float) -> bool:
    """True if every claim that these series answer by a ratio is decided."""
    for claim in claims:
        answer = claim.answer
        if answer is None or claim.value is None or answer.quantity != "ratio" or answer.against:
            continue
        named = (chart for chart in series if chart.name == answer.series)
        points = (chart.point_of(answer.variant, answer.x) for chart in named)
        for ratio in (point.ratio for point in points if point and point.ratio):
            interval = geometric_interval(ratio.runs, confidence=confidence) if ratio.runs else None
            if interval and claim.holds(interval.low, interval.high) is None:
                return False
    return True


def _last(params: TimedParams, runs: int, spent: float) -> Literal["", "time", "most"]:
    """Return why there is no further process, whatever was measured; "" if there may be one."""
    if runs >= MOST * params.processes:
        return "most"
    late = runs >= params.processes and spent * (1 + 1 / runs) > params.seconds
    return "time" if late else ""


def _relay(ctx: Context, body: protocol.Strict, number: int, planned: int) -> None:
    """Pass on a process's events; what every process repeats, only from the first."""
    if isinstance(body, protocol.Progress):
        message = f"process {number + 1}: {body.message}"
        ctx.progress(number + body.fraction, planned, message)
    elif isinstance(body, protocol.Failed):
        raise ProcessFailedError(body)
    elif isinstance(body, protocol.CheckResult) and not (number and body.passed):
        ctx.relay(body)
    elif number == 0 and isinstance(body, protocol.Log):
        ctx.log(body.text)
    elif number == 0 and isinstance(body, protocol.Artefact):
        ctx.relay(body)


def _events(
    ctx: Context, name: str, params: TimedParams, number: int, variables: dict[str, str]
) -> Iterator[protocol.Strict]:
    """The events of a fresh process; it does not outlive the loop that reads them."""
    job = {
        "name": name,
        "params": params.model_dump(mode="json"),
        "device": ctx.device,
        "seed": ctx.seed,
        "number": number,
    }
    with subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.process", json.dumps(job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment.ALLOCATOR | variables,
    ) as process:
        try:
            assert process.stdout is not None
            kind = ""
            for text in process.stdout:
                line = protocol.Line.parse(text)
                kind = line.kind
                yield line.body
        finally:
            process.kill()  # it has ended, unless we have been interrupted
    if kind not in protocol.TERMINAL:
        message = "a measuring process ended without a result; did it run out of memory?"
        raise ProcessFailedError(protocol.Failed(kind="killed", message=message))


def join(
    runs: Sequence[Sequence[protocol.Series]], confidence: float = CONFIDENCE
) -> list[protocol.Series]:
    """One series of each name from what every process measured."""
    joined = []
    for series in runs[0]:
        same = [one for process in runs for one in process if one.name == series.name]
        by_place = [{(point.variant, point.x): point for point in one.points} for one in same]
        points = [
            _join_points([process[place] for process in by_place])
            for place in by_place[0]
            if all(place in process for process in by_place)
        ]
        whole = series.model_copy(update={"points": tuple(points)})
        joined.append(hold_together(whole, confidence))
    return joined


def _join_points(points: Sequence[protocol.Point]) -> protocol.Point:
    first = points[0]
    if not first.of and len({point.median for point in points}) == 1:
        return first  # counted, and the same in every process
    counts = Counter(flag for point in points for flag in point.flags if flag not in _LOCAL)
    flags = [flag for flag, count in counts.items() if count > len(points) / 4]
    if len(points) == 1:
        flags.append(protocol.Flag.ONE_PROCESS)
    return point_of_runs(
        first.variant,
        first.x,
        [sample for point in points for sample in point.samples],
        [point.estimate for point in points],
        [point.ratio.value for point in points if point.ratio is not None],
        of="processes",
        flags=flags,
    )


def widest(series: Sequence[protocol.Series]) -> float:
    """Half the width of the widest interval of a ratio, as a share of the ratio."""
    widths = [
        math.log(point.ratio.high / point.ratio.low) / 2
        for one in series
        for point in one.points
        if point.ratio is not None and point.ratio.runs
    ]
    return max(widths, default=0.0)

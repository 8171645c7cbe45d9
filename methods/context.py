"""Context of a benchmark: its device, and the reporting of progress, checks and results.

Series are held back until the benchmark has ended, because a number is shown only when every check
of the run has passed.
"""

import base64
import math
import mimetypes
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from assay_common.text import clean

from . import protocol
from .errors import CheckFailedError
from .spec import Case, Relation

PROGRESS_INTERVAL_S = 0.5

Emit = Callable[[protocol.Strict], None]
Device = Literal["cpu", "cuda"]


class OpenSeries:
    """A series being measured; :meth:`add` points to it as they come."""

    def __init__(self, context: "Context", series: protocol.Series) -> None:
        self._context, self._series = context, series
        self._points = {(point.variant, point.x): point for point in series.points}

    def add(self, *points: protocol.Point) -> None:
        """Put in measured points, in the place of earlier ones of the same variant and x.

        Raises CheckFailedError when nothing has been checked yet.
        """
        if not self._context.checks:
            raise CheckFailedError("a benchmark checks its results before it measures")
        self._points |= {(point.variant, point.x): point for point in points}
        self.snapshot(partial=True)  # refuses a wrong point here, where its author sees it

    def add_exact(self, x: float | str, values: Mapping[str, float]) -> None:
        """Put in what was counted at x, not sampled: one value a variant, bytes or operations."""
        from .measure.statistics import exact_point  # noqa: PLC0415 - imports numpy

        direction, baseline = self._series.direction, self._series.baseline
        for name, value in values.items():
            against = None if name == baseline else values.get(baseline or "")
            self.add(exact_point(name, x, value, direction=direction, baseline=against))

    @property
    def unit(self) -> str:
        """The unit of its values."""
        return self._series.y.unit

    def at(self, x: float | str) -> str:
        """Place on the series in words: "Forward, 4096 tokens"."""
        return f"{self._series.title}, {self._series.x.at(x)}"

    def snapshot(self, *, partial: bool) -> protocol.Series:
        """The series with the points so far."""
        return protocol.Series(
            **{**dict(self._series), "points": tuple(self._points.values()), "partial": partial}
        )


class Context:
    """The one argument, beside its parameters, of a benchmark's entry function."""

    def __init__(self, device: Device, seed: int, emit: Emit, *, repeated: bool = False) -> None:
        """``repeated``: another process has checked and counted all this already."""
        self.device: Device = device
        self.seed = seed
        self.repeated = repeated
        self._joined: list[protocol.Series] | None = None
        self.checks = self.artefacts = 0
        self._emit = emit
        self._begun = time.monotonic()
        self._last_progress = -math.inf
        self._log_offset = 0
        self._series: dict[str, OpenSeries] = {}
        self._labels: Counter[tuple[str, str]] = Counter()

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Report that ``done`` of ``total`` is finished; shown with the time left."""
        now = time.monotonic()
        fraction = min(1.0, max(0.0, done / total)) if total > 0 else 0.0
        if now - self._last_progress < PROGRESS_INTERVAL_S and fraction < 1:
            return
        self._last_progress = now
        self._emit(protocol.Progress.at(fraction, message, now - self._begun))

    def log(self, text: str) -> None:
        """Write a line (or several) to the run's log."""
        data = (clean(text).rstrip("\n") + "\n").encode()
        while data:
            piece = data[: protocol.MAX_LOG_BYTES].decode(errors="ignore")  # never half a character
            self._emit(protocol.Log(offset=self._log_offset, text=piece))
            self._log_offset += len(piece.encode())
            data = data[len(piece.encode()) :]

    def check(
        self,
        name: str,
        measured: float | bool,
        bound: float | bool,
        relation: Relation = "<=",
        label: str = "",
    ) -> None:
        """Hold the run to a bound; raises CheckFailedError, after which no number is shown."""
        self.check_all(name, [Case(measured, bound, relation, label)])

    def check_all(self, name: str, cases: Iterable[Case]) -> None:
        """Hold the run to every case of one of the method's check functions."""
        if self.repeated:
            self.checks += 1
            return
        for case in cases:
            self._labels[name, case.label] += 1
            if (times := self._labels[name, case.label]) > 1:  # of each label one is kept
                case = replace(case, label=f"{case.label} ({times})".strip())  # noqa: PLW2901
            self.relay(check_result(name, case))
            if not case.passed:
                what = f"{name} ({case.label})" if case.label else name
                wanted = f"{case.relation} {case.bound} wanted"
                raise CheckFailedError(f"{what}: measured {case.measured}, {wanted}")

    def series(self, empty: protocol.Series) -> OpenSeries:
        """Open a series to add points to; shown when the benchmark has ended."""
        if empty.name in self._series:
            raise ValueError(f"there is a series {empty.name!r} already")
        self._series[empty.name] = opened = OpenSeries(self, empty)
        return opened

    def artefact(self, name: str, content: str | bytes) -> None:
        """Keep a file beside the series; its suffix sets the type (svg, png, txt, csv, json)."""
        media_type: Any = mimetypes.types_map.get(Path(name).suffix)
        if media_type not in get_args(protocol.Artefact.model_fields["media_type"].annotation):
            raise ValueError(f"an artefact ends in one of svg, png, txt, csv, json: {name!r}")
        encoding: Literal["text", "base64"] = "text" if isinstance(content, str) else "base64"
        text = content if isinstance(content, str) else base64.b64encode(content).decode()
        self.relay(
            protocol.Artefact(name=name, media_type=media_type, encoding=encoding, content=text)
        )

    def release(self, *, partial: bool) -> list[protocol.Series]:
        """The series that hold points, for the runner to show once the checks have passed."""
        if self._joined is not None:
            return [one.model_copy(update={"partial": partial}) for one in self._joined]
        from .measure.statistics import hold_together  # noqa: PLC0415 - imports numpy

        series = [opened.snapshot(partial=partial) for opened in self._series.values()]
        return [hold_together(one) for one in series if one.points]

    def adopt(self, series: list[protocol.Series]) -> None:
        """Show these, which several processes measured, in the place of series of our own."""
        self._joined = series

    def relay(self, body: protocol.CheckResult | protocol.Artefact) -> None:
        """Emit and count a check or an artefact, of ours or of another process."""
        self._emit(body)
        self.checks += isinstance(body, protocol.CheckResult) and body.passed
        self.artefacts += isinstance(body, protocol.Artefact)


def check_result(name: str, case: Case) -> protocol.CheckResult:
    """The event that reports a case."""
    measured = case.measured if isinstance(case.measured, bool) else float(case.measured)
    return protocol.CheckResult(
        name=name,
        label=case.label[:200],
        measured=measured if math.isfinite(measured) else None,
        bound=case.bound,
        relation=case.relation,
        passed=bool(case.passed),
    )

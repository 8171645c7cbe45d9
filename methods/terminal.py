"""A run on a terminal: its own progress bar, its series as a table, its checks."""

import sys
import time
from typing import TextIO

import rich.progress
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.table import Column

from assay_common.quantities import duration, number
from assay_common.terminal import table

from .charts.words import check_value, interval
from .protocol import CheckResult, Point, Progress, Series


class ProgressBar:
    """A run's own progress, on a terminal only; redrawn by no thread: it would be measured, too."""

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = stream or sys.stderr
        self._bar = rich.progress.Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:3.0f}%{task.fields[left]}"),
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis"),
            ),
            console=Console(file=stream),
            transient=True,
            auto_refresh=False,
            disable=not stream.isatty(),
        )
        self._task = self._bar.add_task("", total=1.0, left="")
        self._begun = time.monotonic()

    def update(self, done: float, total: float, message: str) -> None:
        """Show that ``done`` of ``total`` is behind us; at the end the bar goes."""
        elapsed = time.monotonic() - self._begun
        self.show(Progress.at(min(1.0, done / total), message, elapsed))
        if done >= total:
            self.clear()

    def show(self, progress: Progress) -> None:
        """Redraw with the fraction done, the message and the time left."""
        left = f" · {duration(progress.left)} left" if progress.left is not None else ""
        self._bar.start()
        self._bar.update(
            self._task, completed=progress.fraction, description=progress.message, left=left
        )
        self._bar.refresh()

    def clear(self) -> None:
        """Take the bar away, before other text is written."""
        self._bar.stop()


def series_table(series: Series) -> str:
    """A series as a table: x by variant, estimate, 95 % interval, ratio to the baseline, doubts."""
    unit = f" ({series.y.unit})" if series.y.unit else ""
    header = [series.x.label, "variant", f"estimate{unit}", "95 % interval"]
    compared = series.compared_with
    if compared:
        header += [f"against {compared}", ""]
    header.append("doubts")
    rows = []
    for point, variant in series.rows:
        where = point.x if isinstance(point.x, str) else number(point.x)
        row = [where, variant.label, number(point.estimate), interval(point)]
        if compared:
            row += _ratio(point)
        rows.append([*row, ", ".join(point.flags)])
    title = series.title + (" — PARTIAL: the run did not end" if series.partial else "")
    numeric = (*header[:1], *header[2 : 5 if compared else 4])
    parts = (title, table(header, rows, right=numeric), series.estimator, series.caption)
    return "\n".join(filter(None, parts))


def _ratio(point: Point) -> list[str]:
    if point.ratio is None:
        return ["", ""]
    ratio = point.ratio
    if ratio.low == ratio.high:
        return [f"{ratio.value:.2f}×", ratio.verdict]
    return [f"{ratio.value:.2f}× ({ratio.low:.2f} – {ratio.high:.2f})", ratio.verdict]


def check_line(check: CheckResult) -> str:
    """One check in words: ``passed  oracle (fp32): 3.1e-07 <= 1e-05``."""
    label = f" ({check.label})" if check.label else ""
    comparison = f"{check_value(check.measured)} {check.relation} {check_value(check.bound)}"
    return f"{'passed' if check.passed else 'FAILED'}  {check.name}{label}: {comparison}"

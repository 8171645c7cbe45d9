"""What a person at a terminal sees: a progress bar, tables of checks and of results."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TextIO

from methods.charts.words import check_value, duration, interval, number
from methods.protocol import CheckResult, Point, Progress, Series

BAR_WIDTH = 24


class ProgressBar:
    """One line that is redrawn, on a terminal only; elsewhere it stays silent."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._shown = False

    def show(self, progress: Progress) -> None:
        """Redraw with the fraction done, the message and the time left."""
        if not self._live:
            return
        filled = round(progress.fraction * BAR_WIDTH)
        bar = "█" * filled + "░" * (BAR_WIDTH - filled)
        left = f" · {duration(progress.left)} left" if progress.left is not None else ""
        text = f"{bar} {progress.fraction:4.0%}{left}  {progress.message}"
        columns = shutil.get_terminal_size().columns
        self._stream.write("\r\x1b[K" + text[: columns - 1])
        self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the bar away, before other text is written."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Columns aligned under their headings; the columns in ``right`` are set right."""
    body = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(header, *body, strict=True)]
    numeric = set(right)

    def line(cells: Sequence[str]) -> str:
        padded = []
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            space = " " * (width - _width(cell))
            padded.append(space + cell if index in numeric else cell + space)
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), line(["─" * width for width in widths]), *map(line, body)])


def series_table(series: Series) -> str:
    """A series as a table: x by variant, median, 95 % interval, ratio to the baseline, doubts."""
    labels = {variant.name: variant.label for variant in series.variants}
    unit = f" ({series.y.unit})" if series.y.unit else ""
    header = [series.x.label, "variant", f"estimate{unit}", "95 % interval"]
    compared = series.baseline is not None and any(point.ratio for point in series.points)
    if compared:
        header += [f"against {labels[series.baseline or '']}", ""]
    header.append("doubts")
    rows = []
    for point in series.points:
        where = point.x if isinstance(point.x, str) else number(point.x)
        row = [where, labels[point.variant], number(point.estimate), interval(point)]
        if compared:
            row += _ratio(point)
        rows.append([*row, ", ".join(point.flags)])
    title = series.title + (" — PARTIAL: the run did not end" if series.partial else "")
    parts = [title, table(header, rows, right=(0, 2, 3, 4) if compared else (0, 2, 3))]
    if series.estimator:
        parts.append(series.estimator)
    if series.caption:
        parts.append(series.caption)
    return "\n".join(parts)


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
    said = f"{check_value(check.measured)} {check.relation} {check_value(check.bound)}"
    return f"{'passed' if check.passed else 'FAILED'}  {check.name}{label}: {said}"


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)

"""Outputs of a run's events: JSON lines on standard output or in a file, or text on a terminal."""

from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from assay_common.files import write_whole
from assay_common.quantities import duration

from . import charts, protocol
from .errors import InputError
from .terminal import ProgressBar, check_line, series_table


class JsonLines:
    """Every event on its own line, flushed at once: for the program that started this one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._seq = stream, 0

    def event(self, body: protocol.Strict) -> None:
        """Write the event with the next sequence number."""
        self._stream.write(
            protocol.Line(seq=self._seq, kind=protocol.KINDS[type(body)], body=body).dump() + "\n"
        )
        self._stream.flush()
        self._seq += 1


class JsonFile(JsonLines):
    """All events but progress, written whole when the run has ended."""

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir() or path.is_dir():
            raise InputError(f"--json: {path} is not a file in an existing folder")
        self._path, self._text = path, StringIO()
        super().__init__(self._text)

    def event(self, body: protocol.Strict) -> None:
        """Keep the event; with the last one, write the file."""
        if not isinstance(body, protocol.Progress):
            super().event(body)
        if protocol.KINDS[type(body)] in protocol.TERMINAL:
            write_whole(self._path, self._text.getvalue().encode())


class Plots:
    """The series as SVG charts and the artefacts, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--plots: {folder} is not a folder: {error.strerror}") from None
        self._folder, self._prefix = folder, "run"

    def event(self, body: protocol.Strict) -> None:
        """Write a file for every picture the event holds."""
        if isinstance(body, protocol.Started):
            self._prefix = f"{body.method}.{body.benchmark}"
        elif isinstance(body, protocol.Series):
            for name, svg in charts.draw_all(body).items():
                write_whole(self._folder / f"{self._prefix}-{name}.svg", svg.encode())
        elif isinstance(body, protocol.Artefact):
            write_whole(self._folder / f"{self._prefix}-{body.name}", body.data())


class Words:
    """For people: progress and log on standard error, results on standard output."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self._bar = ProgressBar(err)

    def event(self, body: protocol.Strict) -> None:
        """Print the event."""
        if isinstance(body, protocol.Progress):
            self._bar.show(body)
            return
        self._bar.clear()
        stream = self._out if isinstance(body, protocol.Series | protocol.Result) else self._err
        stream.write(WORDS[type(body)](body))
        stream.flush()


def _started(body: protocol.Started) -> str:
    chosen = " ".join(f"{name}={value}" for name, value in body.params.items())
    return f"{body.method}.{body.benchmark} on {body.environment.hardware}\n{chosen}\n"


def _failed(body: protocol.Failed) -> str:
    shown = "what was measured before is marked partial" if body.partial else "no numbers"
    return f"{body.detail}failed ({body.kind}): {body.message}\n({shown})\n"


def _cancelled(body: protocol.Cancelled) -> str:
    shown = "; what was measured before is marked partial" if body.partial else ""
    return f"cancelled: {body.reason}{shown}\n"


WORDS: Mapping[type[protocol.Strict], Callable[[Any], str]] = {
    protocol.Started: _started,
    protocol.Log: lambda log: str(log.text),
    protocol.CheckResult: lambda check: check_line(check) + "\n",
    protocol.Series: lambda series: f"\n{series_table(series)}\n",
    protocol.Artefact: lambda made: (
        f"made {made.name} ({len(made.data())} bytes; --plots DIR keeps it)\n"
    ),
    protocol.Result: lambda ended: f"\n{ended.checks} checks passed; {duration(ended.duration)}\n",
    protocol.Failed: _failed,
    protocol.Cancelled: _cancelled,
}

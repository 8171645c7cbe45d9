"""Output of the children of `up`: all of it in files, news and warnings on the terminal."""

import logging
import re
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

LOG_BYTES = 5_000_000  # a file of this size is rotated; one older file is kept
# As the site's workers (`time LEVEL logger: words`), Celery (`[time: LEVEL/process] words`) and
# gunicorn (`[time] [process] [LEVEL] words`) write it.
LEVEL = re.compile(r"[-\d:,.+ \[\]]*(DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:/[^\]]*)?\]? ?(.*)")
NEWS = "assay.news: "


class LogFile(RotatingFileHandler):
    """A rotated file of lines. On a full disk lines are lost, and nothing is raised."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)

    def write(self, line: str) -> None:
        """Append a line, after rotating a file that has grown too large."""
        self.emit(logging.makeLogRecord({"msg": line}))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its name in logging
        """Lose the line."""

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        with suppress(OSError):
            super().close()


def worth_reading(line: str) -> str | None:
    """The message of a log line to show on the terminal: news, warnings and errors."""
    match = LEVEL.match(line)
    if match is None:
        return None
    level, message = match.groups()
    if message.startswith(NEWS):
        return message.removeprefix(NEWS)
    return None if level in {"DEBUG", "INFO"} else message


def to_terminal(name: str, line: str) -> None:
    """Print one line with the name of its process before it."""
    with suppress(OSError):  # the terminal may be closed; the log files hold everything
        print(f"{name:>9} │ {line}", flush=True)

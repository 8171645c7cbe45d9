"""What the children of `up` print: all of it in files, the lines worth reading on the terminal."""

import re
from contextlib import suppress
from pathlib import Path
from typing import IO

LOG_BYTES = 5_000_000  # a file of this size is put aside, and replaces the one put aside before
# As the site's workers (`time LEVEL logger: words`), Celery (`[time: LEVEL/process] words`) and
# gunicorn (`[time] [process] [LEVEL] words`) write it.
LEVEL = re.compile(r"[-\d:,.+ \[\]]*(DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:/[^\]]*)?\]? ?(.*)")
NEWS = "assay.news: "


class LogFile:
    """A file that is appended to and rotated; on a full disk lines are lost, nothing else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> None:
        """Append, after putting a file aside that has grown too large."""
        with suppress(OSError):
            if self._file is None:
                self._file = self.path.open("ab", buffering=0)
            if self._file.tell() + len(data) > LOG_BYTES:
                self.close()
                self.path.replace(self.path.with_suffix(".log.1"))
                self._file = self.path.open("ab", buffering=0)
            self._file.write(data)

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


def worth_reading(line: str) -> str | None:
    """The words of a log line that a person at the terminal wants: news, warnings and errors."""
    match = LEVEL.match(line)
    if match is None:
        return None
    level, words = match.groups()
    if words.startswith(NEWS):
        return words.removeprefix(NEWS)
    return None if level in {"DEBUG", "INFO"} else words


def to_terminal(name: str, line: str) -> None:
    """Print one line with the name of its process before it."""
    with suppress(OSError):  # the terminal may be gone; the log files have it all
        print(f"{name:>9} │ {line}", flush=True)

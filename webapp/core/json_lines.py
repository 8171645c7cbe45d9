"""Reads files of JSON lines, each validated by a model; errors name the line's number."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from django.core.management.base import CommandError
from pydantic import BaseModel, ValidationError

MAX_LINE = 4 << 20  # bytes
PROGRESS = 1_000  # lines between two progress messages
Line = TypeVar("Line", bound=BaseModel)


def _stop(reason: str) -> None:
    raise CommandError(reason, returncode=2)


def read_lines(
    path: str, model: type[Line], refuse: Callable[[str], None] = _stop
) -> Iterator[Line]:
    """The lines of a file, or of standard input for `-`; empty lines are skipped.

    `refuse` is called with the reason for an invalid line, which is skipped if it does not raise.
    Progress goes to standard error. Raises CommandError if the file cannot be read.
    """
    try:
        with sys.stdin.buffer if path == "-" else Path(path).open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                if not number % PROGRESS:
                    sys.stderr.write(f"{number:,} lines of {path}\n")
                if not raw.strip():
                    continue
                try:
                    line = _parsed(raw, model)
                except ValueError as error:
                    refuse(f"{path}, line {number}: {error}")
                else:
                    yield line
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}", returncode=2) from error


def _parsed(raw: bytes, model: type[Line]) -> Line:
    """A line as `model`. Raises ValueError with a message."""
    if len(raw) > MAX_LINE:
        raise ValueError(f"is longer than {MAX_LINE:,} bytes")
    try:
        # Python's parser, because it lets lone surrogates through, which arXiv's own data has.
        given = json.loads(raw.decode("utf-8-sig"))
        written = json.dumps(given, ensure_ascii=False, allow_nan=False)
        return model.model_validate_json(written.encode("utf-8", "replace"))
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except RecursionError:
        raise ValueError("nests too deep") from None
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, wrong['loc'])) or 'the line'}: {wrong['msg']}"
            for wrong in error.errors(include_url=False, include_input=False)
        )
        raise ValueError("; ".join(problems)) from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None

"""Lines of JSON for commands that read them: each an object, a bad line said by its number."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

TOLD = 1_000  # lines between two words of progress


def objects(path: Path, *required: str) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file; each thousand is said on the standard error.

    Raises CommandError for a line that is none.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not number % TOLD:
                    sys.stderr.write(f"{number:,} lines of {path.name}\n")
                if line.strip():
                    yield _object(line, f"{path}, line {number}", required)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}", returncode=2) from error


def _object(line: str, where: str, required: tuple[str, ...]) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{where} is not JSON: {error}", returncode=2) from error
    if not isinstance(value, dict):
        raise CommandError(f"{where} is not an object", returncode=2)
    if missing := [name for name in required if name not in value]:
        raise CommandError(f"{where} has no {', '.join(missing)}", returncode=2)
    return value

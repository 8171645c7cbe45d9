"""Style, types and import rules hold: the same commands a developer types."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports", "--no-cache"),
    ("djlint", "--check", "templates"),
    ("djlint", "--lint", "templates"),
)


# Beside the packages that it is mostly of: it lasts as long as they do.
KNOWN_TYPES = {"MYPY_CACHE_DIR": str(Path(sys.prefix) / ".mypy_cache")}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[pytest.mark.xdist_group("types")] * (command == ("mypy",)))
        for command in COMMANDS
    ],
    ids=" ".join,
)
def test_style(command: tuple[str, ...]) -> None:
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [program, *command[1:]],
        cwd=ROOT,
        env=os.environ | KNOWN_TYPES,
        capture_output=True,
        text=True,
    )
    if done.returncode:  # said by `fail`: of two outputs an assertion would print the comparison
        pytest.fail(
            f"{' '.join(command)}\n{done.stdout[-8000:]}{done.stderr[-2000:]}", pytrace=False
        )


def test_lines_of_templates_are_short() -> None:
    """At most one line in a hundred is longer than 120 characters."""
    lines = [line for file in (ROOT / "templates").rglob("*.html") for line in file.open()]
    long = [line.strip() for line in lines if len(line) > 121]
    assert len(long) <= len(lines) / 100, long

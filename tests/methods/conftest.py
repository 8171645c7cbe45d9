"""The command line as users meet it: its own process, its own streams."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from methods.protocol import Line
from tests.processes import ROOT

TOYS = Path(__file__).parent / "toys"
Done = subprocess.CompletedProcess[str]


def environment(roots: Path = TOYS) -> dict[str, str]:
    return {
        **os.environ,
        "ASSAY_METHODS_PATH": str(roots),
        "PYTHONPATH": str(ROOT),
    }


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "methods", *map(str, arguments)]


@pytest.fixture
def cli(tmp_path: Path) -> Callable[..., Done]:
    """Run ``python -m methods`` with the toy method beside the real ones."""

    def run(*arguments: str | Path, roots: Path = TOYS) -> Done:
        return subprocess.run(
            command(*arguments),
            cwd=tmp_path,
            env=environment(roots),
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def lines(text: str) -> list[Line]:
    return [Line.parse(line) for line in text.splitlines()]

"""The command line as users meet it; in a process of its own where that adds something."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import methods
from methods import registry
from methods.__main__ import main
from methods.protocol import Line
from tests.processes import ROOT

TOYS = Path(__file__).parent / "toys"
Done = subprocess.CompletedProcess[str]


def environment(roots: Path = TOYS) -> dict[str, str]:
    return {**os.environ, "ASSAY_METHODS_PATH": str(roots), "PYTHONPATH": str(ROOT)}


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "methods", *map(str, arguments)]


@pytest.fixture(autouse=True)
def _one_seed() -> None:
    """Every test draws the same numbers, whichever ran before it."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Run ``python -m methods`` in this process with the toy method beside the real ones.

    What needs a process (signals, pipes, a terminal) starts ``command`` with ``environment``.
    """
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, roots: Path = TOYS) -> Done:
        for name, value in environment(roots).items():
            monkeypatch.setenv(name, value)  # for the fresh processes that measure
        capfd.readouterr()
        with _beside_the_real_ones(roots):
            code = main(list(map(str, arguments)))
        return Done(arguments, code, *capfd.readouterr())

    return run


@contextmanager
def _beside_the_real_ones(roots: Path) -> Iterator[None]:
    """The methods of a folder, imported anew and forgotten afterwards."""
    methods.__path__.append(str(roots))
    importlib.invalidate_caches()
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None
    try:
        yield
    finally:
        methods.__path__.remove(str(roots))
        registry.get.cache_clear()
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(f"{roots}{os.sep}"):
                del sys.modules[name]
                parent, _, child = name.rpartition(".")
                if hasattr(sys.modules.get(parent), child):
                    delattr(sys.modules[parent], child)
        if threads is not None:
            sys.modules["torch"].set_num_threads(threads)


def lines(text: str) -> list[Line]:
    return [Line.parse(line) for line in text.splitlines()]

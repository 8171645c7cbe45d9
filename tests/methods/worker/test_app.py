"""A bench worker stays light, and says why it cannot start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.runs import forks


def test_the_worker_imports_neither_django_nor_torch() -> None:
    # kombu looks for django.utils.functional to know its lazy texts; that is not Django.
    script = "import sys, methods.worker.app; print(*sys.modules)"
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"django.conf", "django.db", "webapp.settings", "psycopg", "torch", "transformers"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize(
    ("queue", "given", "said"),
    [
        ("bench-cpu", {"ASSAY_WORKER_NAME": ""}, "ASSAY_WORKER_NAME"),
        ("bench-cpu", {"ASSAY_WORKER_KEY": ""}, "ASSAY_WORKER_KEY"),
        ("bench-cpu", {"ASSAY_BENCH_USER": "no-such-user"}, "name not found"),
        ("bench-cpu", {"ASSAY_WORKER_KEY": "nonsense"}, "worker_key"),
        ("site", {}, "-Q bench-cpu or -Q bench-gpu"),
        ("bench-gpu", {"PATH": "/nowhere"}, "nvidia-smi"),
    ],
)
def test_a_worker_that_cannot_work_says_why(
    tmp_path: Path, queue: str, given: dict[str, str], said: str
) -> None:
    worker = {"ASSAY_WORKER_NAME": "one", "ASSAY_WORKER_KEY": "ab" * 32, **given}
    process = forks.start(
        ("-A", "methods.worker.app", "worker", "-Q", queue),
        {**os.environ, "ASSAY_DATA": str(tmp_path), **worker},
        tmp_path / "log",
        anew=False,
    )
    process.join()
    assert process.exitcode
    assert said in (tmp_path / "log").read_text()

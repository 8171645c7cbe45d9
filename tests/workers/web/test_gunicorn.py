"""The number of web processes, and the memory that they share."""

import os
import runpy
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.processes import ROOT, wait_for
from workers.web import gunicorn


@pytest.mark.parametrize(("given", "least", "most"), [("0", 2, 4), ("", 2, 4), ("1", 1, 1)])
def test_the_number_of_processes(
    monkeypatch: pytest.MonkeyPatch, given: str, least: int, most: int
) -> None:
    """Zero, the documented default, is not taken for a server without processes."""
    monkeypatch.setenv("WEB_CONCURRENCY", given)
    assert least <= runpy.run_path(gunicorn.__file__)["workers"] <= most


def test_no_worker_collects_garbage_among_what_was_loaded(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(
        "import gc\n"
        "loaded = [[] for _ in range(10_000)]\n"
        "def application(environ, start_response):\n"
        "    start_response('200 OK', [])\n"
        "    return [str(gc.get_freeze_count()).encode()]\n"
    )
    options = ["--config", "python:workers.web.gunicorn", "--workers", "1"]
    options += ["--pythonpath", str(tmp_path), "application"]
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        server = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "--bind", f"fd://{door.fileno()}", *options],
            env={**os.environ, "ASSAY_DATA": str(tmp_path)},
            cwd=ROOT,
            pass_fds=[door.fileno()],
        )
    found: list[int] = []

    def answers() -> bool:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/") as answer:
            found.append(int(answer.read()))
        return bool(found)

    try:
        wait_for(answers, "the server")
    finally:
        server.terminate()
        server.wait()
    assert found[0] > 10_000

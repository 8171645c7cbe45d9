"""The site as production serves it: gunicorn on a port of its own, over a scene."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests import forking

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Site:
    """A running site: its address, and tokens that sign its reader in, once each."""

    data: Path
    environment: dict[str, str]
    address: str = ""
    tokens: list[str] = field(default_factory=list)

    def fill(self, scene: str) -> None:
        """Put what `scene` has into its database."""
        self.tokens += self.run("tests.scenes", scene).split()

    def run(self, module: str, *arguments: str) -> str:
        """Run a Python module beside the site and return its output."""
        line = [module, *arguments]
        run = f"runpy.run_module({module!r}, None, '__main__')"
        code = f"import runpy, sys; sys.argv = {line!r}; {run}"
        return subprocess.run(
            forking.program(code),
            cwd=ROOT, env=self.environment, check=True, stdout=subprocess.PIPE, text=True,
        ).stdout  # fmt: skip


@contextmanager
def serving(
    data: Path,
    scene: str,
    workers: int = 1,
    static: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Site]:
    """Serve `scene` (tests/scenes.py) from the empty directory `data`, with these `variables`.

    `static` holds the static files where they were collected before.
    """
    environment = os.environ | {
        "ASSAY_DATA": str(data),
        "ASSAY_STATIC": str(static or data / "static"),
        "DATABASE_URL": "",
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "WEB_CONCURRENCY": str(workers),
        "PYTHONPATH": str(ROOT),
        **(variables or {}),
    }
    site = Site(data, environment)
    (data / "static").mkdir(parents=True, exist_ok=True)
    site.fill(scene)
    if static is None:
        site.run("django", "collectstatic", "--noinput", "-v0")
    with socket.create_server(("127.0.0.1", 0), backlog=128) as door:
        port = door.getsockname()[1]
        command = ["gunicorn", "--config", "python:workers.web.gunicorn", "webapp.wsgi"]
        server = subprocess.Popen(
            [sys.executable, "-m", *command, "--bind", f"fd://{door.fileno()}"],
            cwd=ROOT,
            env=environment,
            pass_fds=[door.fileno()],
        )
    try:
        site.address = f"http://127.0.0.1:{port}"
        yield site
    finally:
        server.terminate()
        server.wait()

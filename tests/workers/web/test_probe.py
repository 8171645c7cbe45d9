"""The web container's health check."""

import os
import subprocess
import sys

from tests.processes import ROOT
from tests.runs.rig import free_port


def test_a_port_without_a_server_is_not_well() -> None:
    port = free_port()
    done = subprocess.run(
        [sys.executable, "-m", "workers.web.probe", str(port)],
        cwd=ROOT,
        env={**os.environ, "ASSAY_HOSTS": ".digest.example"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"Port {port} does not answer" in done.stderr

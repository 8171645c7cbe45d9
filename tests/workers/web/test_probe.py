"""The web container's health check."""

import os
import socket
import subprocess
import sys

from tests.processes import ROOT


def test_a_port_without_a_server_is_not_well() -> None:
    with socket.socket() as bound:  # nobody else gets the port, and nobody listens on it
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "workers.web.probe", str(port)],
            cwd=ROOT,
            env={**os.environ, "ASSAY_HOSTS": ".digest.example"},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert f"Port {port} does not answer" in done.stderr

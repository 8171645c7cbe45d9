"""`manage.py test [--fast] [pytest arguments]`: everything, on every core.

With `--fast` what needs neither torch nor a browser nor a running house, in under a minute
(tests/fast.py). With `--docker` docker-compose.yml on a real engine, and nothing else
(tests/engine.py).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import engine, machine

ROOT = Path(__file__).resolve().parent.parent
MOST = 8  # processes: each holds torch and a browser
PROCESSES = ("-n", "--numprocesses", "--pdb")


def main(arguments: list[str]) -> int:
    """Run pytest, or the stack of Docker with `--docker`; the exit status."""
    if "--docker" in arguments:
        return engine.main()
    if "--fast" in arguments:
        arguments = [argument for argument in arguments if argument != "--fast"]
        os.environ["ASSAY_TEST_FAST"] = "1"
    else:
        machine.install()
    os.chdir(ROOT)
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)  # tests/conftest.py says why
    # Tests start Assay's commands, which are to find this environment and make no other.
    os.environ["ASSAY_VENV"] = sys.prefix
    if not any(argument.startswith(PROCESSES) for argument in arguments):
        # Many tests wait for processes of their own, so there are two more than cores keep busy;
        # the quick tests never wait.
        processes = min(os.cpu_count() or 1, MOST) + 2 * ("ASSAY_TEST_FAST" not in os.environ)
        # In the order of tests/conftest.py: xdist would begin with the largest groups.
        dist = ["--dist", "loadgroup", "--no-loadscope-reorder"]
        arguments = ["-n", str(processes), *dist, *arguments]
    return int(pytest.main(arguments))

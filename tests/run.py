"""`manage.py test [--fast] [pytest arguments]`: everything, on every core.

With `--fast` what needs neither torch nor a browser nor a running house, in under a minute
(tests/fast.py). With `--docker` docker-compose.yml on a real engine, and nothing else
(tests/engine.py).
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import engine, forking, machine

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
    with ExitStack() as stack:
        if not any(argument.startswith(PROCESSES) for argument in arguments):
            # Of the whole suite two chains of tests wait more than they work (tests/conftest.py).
            is_fast = "ASSAY_TEST_FAST" in os.environ
            processes = min(os.cpu_count() or 1, MOST) + (1 if is_fast else 2)
            libraries = forking.SITE if is_fast else forking.LIBRARIES
            python = stack.enter_context(forking.python(libraries))
            os.environ[forking.PYTHON] = python
            spread = ["--tx", f"{processes}*popen//python={python}"]
            # In the order of tests/conftest.py: xdist would begin with the largest groups.
            arguments = [*spread, "--dist", "loadgroup", "--no-loadscope-reorder", *arguments]
        return int(pytest.main(arguments))

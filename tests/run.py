"""`manage.py test [--fast] [--install] [pytest arguments]`: run tests on every core.

Without files the whole suite runs, after installing the system's programs that it needs, if this
user may; named files get them with `--install` only. `--fast` runs tests without torch, browser or
running site (tests/fast.py), `--docker` docker-compose.yml on a real engine (tests/engine.py), and
`--models` a real language model's summaries of ten papers (tests/models.py).
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import engine, fast, forking, machine, models

ROOT = Path(__file__).resolve().parent.parent
MAX_PROCESSES = 8  # processes: each holds torch and a browser
PROCESSES = ("-n", "--numprocesses", "--pdb")


def main(arguments: list[str]) -> int:
    """Run pytest or one of the other programs; return the exit status."""
    if "--docker" in arguments:
        return engine.main()
    if "--models" in arguments:
        return models.main([argument for argument in arguments if argument != "--models"])
    named = fast.named(arguments)
    if "--fast" in arguments:
        os.environ["ASSAY_TEST_FAST"], fast.ON = "1", True
    elif not named or "--install" in arguments:
        machine.install()
    arguments = [argument for argument in arguments if argument not in {"--fast", "--install"}]
    if not named:
        arguments = ["--durations=50", "--durations-min=1", *arguments]
    os.chdir(ROOT)
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)  # tests/conftest.py says why
    # Commands of Assay that tests start use this environment.
    os.environ["ASSAY_VENV"] = sys.prefix
    with ExitStack() as stack:
        one_file = len(named) == 1 and named[0].is_file()  # a second process would only take time
        if not one_file and not any(argument.startswith(PROCESSES) for argument in arguments):
            # Two chains of the whole suite wait more than they work (tests/conftest.py).
            is_fast = "ASSAY_TEST_FAST" in os.environ
            processes = min(os.cpu_count() or 1, MAX_PROCESSES) + (1 if is_fast else 2)
            with_torch = not is_fast and (not named or fast.need_torch(named))
            libraries = forking.LIBRARIES if with_torch else forking.SITE
            python = stack.enter_context(forking.python(libraries))
            os.environ[forking.PYTHON] = python
            spread = ["--tx", f"{processes}*popen//python={python}"]
            # Keep the order of tests/conftest.py: xdist would start with the largest groups.
            arguments = [*spread, "--dist", "loadgroup", "--no-loadscope-reorder", *arguments]
        return int(pytest.main(arguments))

"""`manage.py test [--fast] [pytest arguments]`: everything, on three processes.

With `--fast` what needs neither torch nor a browser nor a running house, in under a minute
(tests/fast.py).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import machine

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = ("-n", "--numprocesses", "--pdb")


def main(arguments: list[str]) -> int:
    """Run pytest; its exit status."""
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
        # Many tests wait for processes of their own: three keep two cores busy.
        arguments = ["-n", "3", "--dist", "loadgroup", *arguments]
    return int(pytest.main(arguments))

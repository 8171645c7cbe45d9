"""A small storm of every fault at random over the real `up`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.faults.storm import ZERO
from tests.processes import ROOT


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", [[], ["--postgres"]])
def test_nothing_is_lost_or_done_twice(database: list[str], request: pytest.FixtureRequest) -> None:
    if database:
        request.getfixturevalue("postgresql_url")  # skips, with its reason, where there is none
    command = [sys.executable, "-m", "tests.faults.storm", "--runs", "8", "--seed", "1", *database]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "ASSAY_DATA"},
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert {name: found[name] for name in ZERO} == dict.fromkeys(ZERO, 0)
    assert sum(found["ended"].values()) == 8
    assert done.returncode == 0

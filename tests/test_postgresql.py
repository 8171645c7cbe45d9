"""The rooms that live in the database, once more on PostgreSQL."""

import os
import subprocess
import sys

import pytest

from tests.processes import ROOT

ROOMS = ("api", "digests", "health", "papers", "readers", "runs", "summaries", "ui")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_rooms_hold_on_postgresql(postgresql_url: str) -> None:
    rooms = [f"tests/{room}" for room in ROOMS]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *rooms],
        cwd=ROOT,
        env={**os.environ, "ASSAY_TEST_DATABASE_URL": postgresql_url},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]

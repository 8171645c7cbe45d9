"""The rooms that live in the database, once more on PostgreSQL."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("digests", "health", "papers", "readers", "runs", "summaries")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("room", [name for name in ROOMS if (ROOT / "tests" / name).is_dir()])
def test_a_room_holds_on_postgresql(room: str, postgresql_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", f"tests/{room}"],
        cwd=ROOT,
        env={**os.environ, "ASSAY_TEST_DATABASE_URL": postgresql_url},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]

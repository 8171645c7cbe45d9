"""A database with every table and no row: made once in a session of tests, then copied."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests import forking
from tests.processes import ROOT

SHARED = "ASSAY_TEST_SHARED"  # names the folder that all processes of a session know


def lay(target: Path) -> None:
    """Copy it to `target`. To make it takes longer than most tests."""
    shared = Path(os.environ[SHARED])
    made = shared / "migrated" / "assay.sqlite3"
    with (shared / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _make(made.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, target)


def _make(data: Path) -> None:
    making = data.with_name("making")
    subprocess.run(
        forking.manage("migrate", "--verbosity", "0"),
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(making), "DATABASE_URL": ""},
        check=True,
    )
    making.rename(data)

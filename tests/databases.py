"""An empty database with all tables: migrated once in a session, then copied."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import forking
from tests.processes import ROOT

SHARED = "ASSAY_TEST_SHARED"  # the variable with the folder that all processes of a session share


def copy_to(target: Path) -> None:
    """Copy the empty database to `target`; migrating one takes longer than most tests."""
    migrated = Path(os.environ[SHARED], "migrated", "assay.sqlite3")
    with locked("migrated"):
        if not migrated.exists():
            _migrate(migrated.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(migrated, target)


def empty_by_deleting() -> None:
    """Have PostgreSQL delete the few rows that a test committed.

    Truncating sixty tables takes seconds, since each gets a new file. Foreign keys are deferred.
    """
    from django.db.backends.postgresql.operations import DatabaseOperations

    def delete(self: DatabaseOperations, _style: Any, tables: list[str], **_: Any) -> list[str]:
        return [f"DELETE FROM {self.quote_name(table)}" for table in tables]

    DatabaseOperations.sql_flush = delete  # type: ignore[method-assign]


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock of the session: one process makes what all share, the others wait."""
    with Path(os.environ[SHARED], f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def module_rows(blocker: Any) -> Iterator[None]:
    """Store rows for all tests of a module, in one of its fixtures; roll them back at its end."""
    from django.db import transaction

    with blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


def _migrate(data: Path) -> None:
    unfinished = data.with_name("unfinished")
    subprocess.run(
        forking.manage("migrate", "--verbosity", "0"),
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(unfinished), "DATABASE_URL": ""},
        check=True,
    )
    unfinished.rename(data)

"""A database with every table and no row: made once in a session of tests, then copied."""

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

SHARED = "ASSAY_TEST_SHARED"  # names the folder that all processes of a session know


def lay(target: Path) -> None:
    """Copy it to `target`. To make it takes longer than most tests."""
    made = Path(os.environ[SHARED], "migrated", "assay.sqlite3")
    with alone("migrated"):
        if not made.exists():
            _make(made.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, target)


def empty_by_deleting() -> None:
    """Have PostgreSQL delete the few rows that a test committed: to truncate sixty tables, each a
    new file, takes seconds. Every foreign key waits for the end of the transaction.
    """
    from django.db.backends.postgresql.operations import DatabaseOperations

    def delete(self: DatabaseOperations, _style: Any, tables: list[str], **_: Any) -> list[str]:
        return [f"DELETE FROM {self.quote_name(table)}" for table in tables]

    DatabaseOperations.sql_flush = delete  # type: ignore[method-assign]


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Make something that all processes of a session share: one makes it, the others wait."""
    with Path(os.environ[SHARED], f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def kept(blocker: Any) -> Iterator[None]:
    """What is stored before it is left stands for the tests that follow: a module's, in a fixture
    of the module, which make it but once. At its end it goes.
    """
    from django.db import transaction

    with blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


def _make(data: Path) -> None:
    making = data.with_name("making")
    subprocess.run(
        forking.manage("migrate", "--verbosity", "0"),
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(making), "DATABASE_URL": ""},
        check=True,
    )
    making.rename(data)

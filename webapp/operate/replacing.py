"""Replaces the site's database as a whole, or leaves it as it was.

SQLite: the work is done on a file beside the present one, which is renamed into its place. The
present file is held meanwhile, so no other process can write what would be lost. PostgreSQL: all is
one transaction.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from django.db import connection, transaction

from webapp.core.database import DatabaseError

BUSY = "Another process is using the database: stop the site, then run this command again."
WAIT = 2.0  # seconds for another process to let go


@contextmanager
def empty_database() -> Iterator[None]:
    """Work on an empty database, which replaces the present one at the end.

    Raises DatabaseError where another process uses a file of SQLite.
    """
    if connection.vendor == "postgresql":
        with _one_transaction(), connection.cursor() as cursor:
            for table in connection.introspection.table_names(cursor):
                cursor.execute(f"DROP TABLE {connection.ops.quote_name(table)} CASCADE")
            yield
        return
    with (
        _held(_file()) if _file().exists() else nullcontext(),
        _draft() as draft,
        connected_to(draft),
    ):
        yield


@contextmanager
def copied_database() -> Iterator[None]:
    """Work on a copy of the database, which replaces it at the end.

    Raises DatabaseError where another process uses a file of SQLite.
    """
    if connection.vendor == "postgresql":
        with _one_transaction():
            yield
        return
    with _held(_file()) as present, _draft() as draft:
        with closing(sqlite3.connect(draft)) as copy:
            present.backup(copy)
        with connected_to(draft):
            yield


@contextmanager
def _one_transaction() -> Iterator[None]:
    with transaction.atomic():
        with connection.cursor() as cursor:
            # Deferred checks of rows that a migration inserts would keep the next from altering
            # their table.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        yield


def _file() -> Path:
    return Path(connection.settings_dict["NAME"])


@contextmanager
def _held(file: Path) -> Iterator[sqlite3.Connection]:
    """Keep every other process from SQLite's file; a damaged one holds nothing to be kept."""
    connection.close()
    with closing(sqlite3.connect(file, timeout=WAIT, isolation_level=None)) as present:
        try:
            present.execute("PRAGMA locking_mode = EXCLUSIVE")
            present.execute("BEGIN EXCLUSIVE")
            present.execute("COMMIT")  # the lock stays until the connection is closed
            present.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            raise DatabaseError(BUSY if "locked" in str(error) else str(error)) from error
        except sqlite3.DatabaseError:
            pass
        yield present


@contextmanager
def _draft() -> Iterator[Path]:
    """A file beside the database, renamed into its place where no error is raised."""
    file = _file()
    draft = file.with_name(f"{file.name}.new")
    _remove(draft)  # of a process that was killed
    draft.touch(mode=0o600)
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(file)
        for suffix in ("-wal", "-shm"):  # they belong to the replaced file
            file.with_name(file.name + suffix).unlink(missing_ok=True)
    finally:
        _remove(draft)


def _remove(draft: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)


@contextmanager
def connected_to(file: Path) -> Iterator[None]:
    """Connect the site to another file of SQLite."""
    connection.close()
    name, connection.settings_dict["NAME"] = connection.settings_dict["NAME"], str(file)
    try:
        yield
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
        connection.settings_dict["NAME"] = name

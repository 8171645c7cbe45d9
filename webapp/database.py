"""Applies missing migrations before the database is used, in one process at a time."""

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError as DriverError
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

ADVISORY_LOCK = 0x41535359  # "ASSY"


class DatabaseError(Exception):
    """The database cannot be used; the message says why and what to do."""


def bring_up_to_date() -> None:
    """Apply the migrations that are missing.

    Raises DatabaseError where the database cannot be reached, or is newer than this code.
    """
    try:
        if not _missing():
            return
        with _alone():
            if _missing():  # another process may have been quicker
                call_command("migrate", interactive=False, verbosity=0)
    except DriverError as error:  # it cannot be reached, or the file is not a database
        name = connection.settings_dict["NAME"]
        raise DatabaseError(f"The database {name} cannot be used: {error}") from error


def _missing() -> int:
    executor = MigrationExecutor(connection)
    loader = executor.loader
    if newer := unknown_migrations(loader, loader.applied_migrations):
        raise DatabaseError(
            f"The database was made by a newer Assay (it has {', '.join(newer)}): "
            "update the code, or choose another directory with --data."
        )
    return len(executor.migration_plan(loader.graph.leaf_nodes()))


def unknown_migrations(loader: MigrationLoader, applied: Iterable[tuple[str, str]]) -> list[str]:
    """Applied migrations of our apps that this code does not have: a newer Assay made them."""
    ours = {app for app, _ in loader.graph.nodes}
    known = set(loader.disk_migrations)
    known.update(old for one in loader.replacements.values() for old in one.replaces)
    return sorted(f"{app}.{name}" for app, name in {*applied} - known if app in ours)


@contextmanager
def _alone() -> Iterator[None]:
    """Make other processes wait that would migrate: on this machine; with PostgreSQL, on any."""
    if connection.vendor != "postgresql":
        with (settings.DATA_DIR / "migrate.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_LOCK])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_LOCK])


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """A transaction that no other of the same name overlaps, so that what it counts stays true."""
    with transaction.atomic():
        if connection.vendor == "postgresql":  # SQLite has one writer at a time
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [name])
        yield

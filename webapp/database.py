"""The database's shape: brought up to date before it is used, by one process at a time."""

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError as DriverError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

ADVISORY_LOCK = 0x41535359  # "ASSY"


class DatabaseError(Exception):
    """The database cannot be used; the message says why and what to do."""


def bring_up_to_date() -> int:
    """Apply the migrations that are missing; how many there were.

    Raises DatabaseError where the database cannot be reached, or is newer than this code.
    """
    try:
        if not _missing():
            return 0
        with _alone():
            missing = _missing()  # another process may have been quicker
            if missing:
                call_command("migrate", interactive=False, verbosity=0)
    except DriverError as error:  # it is away, or the file is no database
        name = connection.settings_dict["NAME"]
        raise DatabaseError(f"The database {name} cannot be used: {error}") from error
    return missing


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
    """Of migrations of our apps those that this code never had: a newer Assay made them."""
    ours = {app for app, _ in loader.graph.nodes}
    known = set(loader.disk_migrations)
    known.update(old for one in loader.replacements.values() for old in one.replaces)
    return sorted(f"{app}.{name}" for app, name in {*applied} - known if app in ours)


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other migrating processes waiting: on this machine, or all that use the database."""
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

"""Applies missing migrations before the database is used, in one process at a time."""

import fcntl
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError as DriverError
from django.db import InterfaceError, InternalError, OperationalError, connection, transaction
from django.db.migrations.exceptions import NodeNotFoundError
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from webapp.core import revisions

RESTORE = (
    "Restore a backup with: manage.py restore FILE. To begin a new site, move the file away first."
)
SUPPORTED = "0.1.0"  # the first version whose databases can be upgraded
ADVISORY_LOCK = 0x41535359  # "ASSY"
REASONS = {
    "full": "The disk is full",
    "closed": "The disk cannot be written to",
    "away": "The database does not answer",
}
# SQLite's messages, and SQLSTATEs of PostgreSQL, whose messages are localised.
MESSAGES = {
    "full": ("is full", "No space left", "53100"),
    "closed": ("readonly database", "disk I/O", "25006"),
}


class DatabaseError(Exception):
    """The database cannot be used; the message says why and what to do."""


def database_trouble(error: BaseException | None) -> str:
    """Return what is wrong with the database, as a key of `REASONS`; "" if it is something else."""
    if not isinstance(error, InterfaceError | InternalError | OperationalError):
        return ""
    text = f"{error} {getattr(error.__cause__, 'sqlstate', '')}"
    otherwise = "" if isinstance(error, InternalError) else "away"
    return next(
        (key for key, parts in MESSAGES.items() if any(part in text for part in parts)), otherwise
    )


def bring_up_to_date() -> None:
    """Apply the migrations that are missing, and the triggers of revisions.

    Raises DatabaseError if the database cannot be reached or used, or is newer than this code.
    """
    if not missing_migrations() and revisions.is_installed():
        return
    with alone():
        apply_migrations()


def apply_migrations() -> None:
    """Apply the missing migrations, as the only process that does. Raises DatabaseError."""
    with _errors_in_words():
        if _missing():  # another process may have been quicker
            call_command("migrate", interactive=False, verbosity=0)
        revisions.install()  # also where a migration was killed, or the watches are others


def missing_migrations() -> int:
    """Return how many migrations the database lacks. Raises DatabaseError."""
    _refuse_empty_file()
    with _errors_in_words():
        _refuse_other_encodings()
        return _missing()


def is_new() -> bool:
    """True if no migration was ever applied."""
    return not MigrationRecorder(connection).applied_migrations()


def described() -> str:
    """Return where the tables are not those that the applied migrations make, or ""."""
    loader = MigrationLoader(connection)
    applied = [node for node in loader.graph.nodes if node in loader.applied_migrations]
    every = loader.project_state(applied).apps.get_models(include_auto_created=True)
    models = [model for model in every if model._meta.managed and not model._meta.proxy]
    with connection.cursor() as cursor:
        present = set(connection.introspection.table_names(cursor))
        for model in models:
            table, columns = model._meta.db_table, set[str]()
            if table in present:
                description = connection.introspection.get_table_description(cursor, table)
                columns = {column.name for column in description}
            if lacking := sorted({str(f.column) for f in model._meta.concrete_fields} - columns):
                return f"the table {table} lacks {', '.join(lacking)}"
    return ""


@contextmanager
def _errors_in_words() -> Iterator[None]:
    try:
        yield
    except DriverError as error:  # it cannot be reached, or the file is not a database
        name = connection.settings_dict["NAME"]
        advice = "" if connection.vendor == "postgresql" else f" {RESTORE}"
        raise DatabaseError(f"The database {name} cannot be used: {error}.{advice}") from error


def refuse_damage(seconds: float) -> None:
    """Raises DatabaseError where SQLite's file is damaged, as far as can be read in that time."""
    if connection.vendor == "postgresql":
        return
    answer, end = "ok", time.monotonic() + seconds
    with _errors_in_words(), connection.cursor() as cursor:
        connection.connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
        try:
            [(answer,)] = cursor.execute("PRAGMA quick_check(1)").fetchall()
        except DriverError as error:
            if str(error) != "interrupted":
                raise
        finally:
            connection.connection.set_progress_handler(None, 0)
    if answer != "ok":
        path, what = connection.settings_dict["NAME"], " ".join(answer.split())
        raise DatabaseError(f"The database {path} is damaged: {what}. {RESTORE}")


def _refuse_empty_file() -> None:
    """A file of 0 bytes was a database once: a new site there would hide the loss of the old one.

    SQLite writes to a new file as soon as it opens it, so one that another process is just making
    does not stay empty.
    """
    if connection.vendor == "postgresql":
        return
    path = Path(connection.settings_dict["NAME"])
    for _ in range(10):
        if not path.is_file() or path.stat().st_size:
            return
        time.sleep(0.1)
    raise DatabaseError(f"The database {path} is empty (0 bytes), as after a full disk. {RESTORE}")


def _refuse_other_encodings() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_encoding")
            [encoding] = cursor.fetchone()
        if encoding != "UTF8":
            raise DatabaseError(
                f"The database {connection.settings_dict['NAME']} has the encoding {encoding}, in "
                "which papers cannot be stored or searched. Create one with UTF8: "
                "createdb --encoding=UTF8 --template=template0 NAME"
            )


def _missing() -> int:
    try:
        executor = MigrationExecutor(connection)
    except NodeNotFoundError as error:  # a part of what one migration replaces was applied
        raise DatabaseError(too_old()) from error
    loader = executor.loader
    _refuse_unknown(loader)
    return len(executor.migration_plan(loader.graph.leaf_nodes()))


def too_old() -> str:
    """Say that a version before SUPPORTED made the database."""
    return (
        f"The database {connection.settings_dict['NAME']} was made by a version of Assay before "
        f"{SUPPORTED}, which this one does not upgrade. Nothing was changed: upgrade it with "
        f"version {SUPPORTED} first, or begin a new site in another directory with --data."
    )


def _refuse_unknown(loader: MigrationLoader) -> None:
    """Raise DatabaseError if the database is older than SUPPORTED, or newer than this code."""
    recorded = set(loader.applied_migrations)
    for new, migration in loader.replacements.items():
        if new not in recorded and recorded.intersection(migration.replaces):
            raise DatabaseError(too_old())  # a part of them: else it counts as applied
    newest = newest_numbers(loader)
    newer = [
        f"{app}.{name}"
        for app, name in sorted(recorded - set(loader.disk_migrations))
        if number(name) > newest.get(app, number(name))
    ]
    if newer:
        more = f" and {len(newer) - 1} more" if len(newer) > 1 else ""
        raise DatabaseError(
            f"The database was made by a newer Assay (it has {newer[0]}{more}): "
            "update the code, or choose another directory with --data."
        )


def number(name: str) -> int:
    """Return the number of a migration, of a squashed one that of the last it replaces."""
    match = re.match(r"\d{4}_squashed_(\d+)|(\d+)", name)
    return int(match[1] or match[2]) if match else 0


def newest_numbers(loader: MigrationLoader) -> dict[str, int]:
    """Return the largest number of a migration of each app that this code has or replaces."""
    replaced = (old for migration in loader.replacements.values() for old in migration.replaces)
    newest: dict[str, int] = {}
    for app, name in (*loader.disk_migrations, *replaced):
        newest[app] = max(number(name), newest.get(app, 0))
    return newest


@contextmanager
def alone() -> Iterator[None]:
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

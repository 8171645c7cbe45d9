"""Backups: one file with a snapshot of the database and the site's secret key.

It is a gzipped tar of `manifest.json`, `secret_key` and the database: a copy of the SQLite file, or
a `COPY` file for each table of PostgreSQL. The site can go on writing meanwhile. Restoring is all
or nothing: the file is checked and a copy of it migrated first; then a SQLite file is renamed into
place, or PostgreSQL's tables are replaced in one transaction.
"""

import json
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command
from django.core.management.color import no_style
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from psycopg import sql
from pydantic import BaseModel, ConfigDict, ValidationError

from assay_common.files import write_whole
from webapp.core.database import DatabaseError as UnusableDatabaseError
from webapp.core.database import bring_up_to_date, unknown_migrations
from webapp.operate.heartbeats import SILENCE
from webapp.operate.models import Heartbeat
from webapp.papers.queries import rows

FORMAT = 1
DATABASE = "database.sqlite3"
SECRET = "secret_key"  # noqa: S105 - the file's name
PIECE = 1 << 20
MEMBER = re.compile(
    r"manifest\.json|secret_key|database\.sqlite3|tables/\w+(?:\.columns)?", re.ASCII
)


class BackupError(CommandError):
    """A backup cannot be made or restored; the message says why and what to do."""


class BackupManifest(BaseModel):
    """What a backup says of itself."""

    model_config = ConfigDict(strict=True)

    format: int
    database: str  # the kind
    made_at: str
    migrations: list[tuple[str, str]]  # app and name, of all that were applied


def back_up(target: Path) -> int:
    """Write a backup to `target`, whole or not at all; its size in bytes.

    Raises BackupError if the folder cannot be written or the file exists.
    """
    with new_file(target) as draft:
        content = draft.with_name("content")
        content.mkdir()
        _dump(content)
        _pack(content, draft)
    return target.stat().st_size


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Where to write what `target` then is, all at once and closed to others: it holds secrets.

    The folder that it is in is removed at the end. Raises BackupError if the file exists or cannot
    be written.
    """
    if target.exists():
        raise BackupError(f"{target} is there already: choose another name.")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as folder:
            yield (draft := Path(folder) / "draft")
            draft.chmod(0o600)
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            os.link(draft, target)  # fails if the file has been created meanwhile
    except OSError as error:
        raise BackupError(f"{target} cannot be written: {error.strerror or error}") from error


def restore(source: Path, *, force: bool = False) -> BackupManifest:
    """Replace the database and the secret key by those of a backup; its manifest.

    Raises BackupError if the file is not a backup, is damaged, or was made on another kind of
    database or by a newer Assay; and, without `force`, if a site is running on the database.
    """
    if not force:
        refuse_while_running()
    with _unpacked(source) as content:
        manifest = _manifest(content)
        if manifest.database != connection.vendor:
            raise BackupError(
                f"{source} is of {manifest.database[:20]}, and this site keeps its data in "
                f"{connection.vendor}: set DATABASE_URL to a database of that kind."
            )
        _refuse_newer(manifest)
        try:
            _RESTORE[connection.vendor](content, manifest)
        except UNUSABLE as error:
            reason = " ".join(str(error).split())[:300]
            raise BackupError(
                f"{source} cannot be restored, and nothing was changed: {reason}"
            ) from error
        if (content / SECRET).exists():  # without it sessions and workers' keys are not valid
            write_whole(settings.DATA_DIR / SECRET, (content / SECRET).read_bytes(), mode=0o600)
    bring_up_to_date()
    Heartbeat.objects.all().delete()  # of processes that ran when the backup was made
    return manifest


# What the databases, JSON and the disk raise of a file that is not sound.
UNUSABLE = (
    *(sqlite3.Error, psycopg.Error, DatabaseError, UnusableDatabaseError),
    *(ValueError, TypeError, KeyError, RecursionError, OSError),
)


def _dump(content: Path) -> None:
    applied = sorted(MigrationRecorder(connection).applied_migrations())
    _DUMP[connection.vendor](content)
    if (settings.DATA_DIR / SECRET).exists():  # else it is in ASSAY_SECRET_KEY
        shutil.copyfile(settings.DATA_DIR / SECRET, content / SECRET)
    manifest = BackupManifest(
        format=FORMAT,
        database=connection.vendor,
        made_at=timezone.now().isoformat(),
        migrations=applied,
    )
    (content / "manifest.json").write_text(manifest.model_dump_json(indent=1))


def _dump_sqlite(content: Path) -> None:
    """SQLite's own online backup: it is consistent, and writers need not wait."""
    name = connection.settings_dict["NAME"]
    with (
        closing(sqlite3.connect(name)) as live,
        closing(sqlite3.connect(content / DATABASE)) as copy,
    ):
        live.backup(copy)


def _dump_postgresql(content: Path) -> None:
    """Every table as COPY writes it, all of one snapshot."""
    (content / "tables").mkdir()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for table in connection.introspection.table_names(cursor):
            columns = _columns(table)
            file = content / "tables" / table
            file.with_name(f"{table}.columns").write_text(json.dumps(columns))
            statement = sql.SQL("COPY {} ({}) TO STDOUT").format(
                sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
            )
            with file.open("wb") as target, cursor.cursor.copy(statement) as rows:
                target.writelines(rows)


def _restore_sqlite(content: Path, manifest: BackupManifest) -> None:
    if not (content / DATABASE).exists():
        raise BackupError("The backup lacks its database.")
    with closing(sqlite3.connect(content / DATABASE)) as copy:
        (answer,) = copy.execute("PRAGMA quick_check").fetchone()
        applied = copy.execute("SELECT app, name FROM django_migrations").fetchall()
    if answer != "ok":
        raise BackupError(f"The backup's database is damaged: {answer}")
    if {*applied} != {*manifest.migrations}:
        raise BackupError("The backup's database is not the one that its manifest describes.")
    database = Path(connection.settings_dict["NAME"])
    draft = database.with_name(f"{database.name}.restored")
    try:
        shutil.copyfile(content / DATABASE, draft)
        draft.chmod(0o600)
        with _connected_to(draft):
            bring_up_to_date()
            _refuse_other_tables()
        _replace_sqlite(database, draft)
    finally:
        for suffix in ("", "-wal", "-shm"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)


@contextmanager
def _connected_to(file: Path) -> Iterator[None]:
    """Within, the site's connection is one to another file of SQLite."""
    connection.close()
    name, connection.settings_dict["NAME"] = connection.settings_dict["NAME"], str(file)
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = name


def _refuse_other_tables() -> None:
    """Raises BackupError unless each model has its table with all of its columns."""
    with connection.cursor() as cursor:
        present = set(connection.introspection.table_names(cursor))
        for model in apps.get_models(include_auto_created=True):
            table, columns = model._meta.db_table, set[str]()
            if table in present:
                described = connection.introspection.get_table_description(cursor, table)
                columns = {column.name for column in described}
            if lacking := sorted({str(f.column) for f in model._meta.concrete_fields} - columns):
                raise BackupError(f"The backup's table {table} lacks {', '.join(lacking)}.")


def _replace_sqlite(database: Path, draft: Path) -> None:
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    # Move the log into the present file, so that a kill before the rename loses nothing.
    try:
        ((busy, *_),) = rows("PRAGMA wal_checkpoint(TRUNCATE)")
    except OperationalError:
        raise
    except DatabaseError:
        busy = 0  # the present file is damaged: there is nothing to keep
    if busy:
        raise BackupError("Another process is using the database: stop it and try again.")
    connection.close()
    draft.replace(database)
    for suffix in ("-wal", "-shm"):  # they belong to the replaced file
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def _restore_postgresql(content: Path, manifest: BackupManifest) -> None:
    """Recreate the tables as of the backup's migrations and copy their rows, in one transaction."""
    with transaction.atomic(), connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"DROP TABLE {connection.ops.quote_name(table)} CASCADE")
        # Deferred checks of rows that one migration inserts would keep the next from altering them.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for app, name in _last_migrations(manifest).items():
            call_command("migrate", app, name, interactive=False, verbosity=0)
        tables = connection.introspection.table_names(cursor)
        names = ", ".join(connection.ops.quote_name(table) for table in tables)
        cursor.execute(f"TRUNCATE {names} CASCADE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for table in tables:
            _copy_in(cursor, content, table)
        models = connection.introspection.installed_models(tables)
        for statement in connection.ops.sequence_reset_sql(no_style(), list(models)):
            cursor.execute(statement)


def _copy_in(cursor: Any, content: Path, table: str) -> None:
    file = content / "tables" / table
    if not file.exists():
        raise BackupError(f"The backup lacks the table {table}.")
    columns = json.loads(file.with_name(f"{table}.columns").read_text())
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with file.open("rb") as rows, cursor.cursor.copy(statement) as copy:
        shutil.copyfileobj(rows, copy, PIECE)


def _columns(table: str) -> list[str]:
    """The columns of a table except generated ones."""
    names = rows(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema()"
        " AND table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position",
        [table],
    )
    return [name for (name,) in names]


def _last_migrations(manifest: BackupManifest) -> dict[str, str]:
    """The last migration of each app that the backup had applied, by app."""
    had = {*manifest.migrations}
    executor = MigrationExecutor(connection)
    replacements = executor.loader.replacements
    had |= {new for new, migration in replacements.items() if had.issuperset(migration.replaces)}
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
    return {
        migration.app_label: migration.name
        for migration, _ in plan
        if (migration.app_label, migration.name) in had
    }


def _refuse_newer(manifest: BackupManifest) -> None:
    # Without a connection: the present database may be damaged, or of a newer Assay.
    if newer := unknown_migrations(MigrationLoader(None), manifest.migrations):
        raise BackupError(
            f"The backup was made by a newer Assay (it has {', '.join(newer)}): "
            "update the code, then restore it."
        )


def refuse_while_running() -> None:
    """Raises BackupError if processes of a site used the database moments ago."""
    recent = Heartbeat.objects.filter(at__gte=timezone.now() - SILENCE)
    with suppress(DatabaseError):  # damaged, or empty: no site can be running on it
        if names := sorted(recent.values_list("name", flat=True)):
            raise BackupError(
                f"A site is running on this database ({', '.join(names)}): stop it and wait "
                f"{SILENCE.seconds} seconds, or add --force if it was killed."
            )


def _pack(content: Path, target: Path) -> None:
    with tarfile.open(target, "w:gz", compresslevel=6) as archive:
        for path in filter(Path.is_file, sorted(content.rglob("*"))):
            archive.add(path, arcname=str(path.relative_to(content)))


@contextmanager
def _unpacked(source: Path) -> Iterator[Path]:
    """The backup's files, in a temporary folder of the data directory: they may be large."""
    with tempfile.TemporaryDirectory(dir=settings.DATA_DIR, prefix=".restore-") as folder:
        try:
            _unpack(source, Path(folder))
        except FileNotFoundError:
            raise BackupError(f"There is no file {source}.") from None
        except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError) as error:
            raise BackupError(f"{source} is no backup, or a damaged one: {error}") from error
        yield Path(folder)


def _unpack(source: Path, folder: Path) -> None:
    """Extract the files that a backup has and no others, and verify the checksum at the end."""
    (folder / "tables").mkdir()
    free = shutil.disk_usage(folder).free // 2  # SQLite's file is copied once more
    with tarfile.open(source, "r:gz") as archive:
        for member in archive:
            is_ours = member.isreg() and MEMBER.fullmatch(member.name)
            stream = archive.extractfile(member) if is_ours else None
            if stream is None or (folder / member.name).exists():
                raise BackupError(f"{source} is no backup of Assay: it holds {member.name[:80]!r}.")
            free -= member.size
            if free < 0:
                raise BackupError(f"{source} holds more than there is room for on this disk.")
            with (folder / member.name).open("wb") as file:
                shutil.copyfileobj(stream, file, PIECE)
        assert archive.fileobj
        while archive.fileobj.read(PIECE):  # to the end, where gzip's checksum is verified
            pass


def _manifest(content: Path) -> BackupManifest:
    """The manifest. Raises BackupError if this Assay cannot read it."""
    try:
        manifest = BackupManifest.model_validate_json((content / "manifest.json").read_bytes())
    except FileNotFoundError:
        raise BackupError("The file is no backup of Assay: it has no manifest.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:80]
        raise BackupError(f"The backup's manifest is not sound: {where}: {first['msg']}") from None
    if manifest.format != FORMAT:
        raise BackupError(f"The backup has format {manifest.format}; this Assay reads {FORMAT}.")
    return manifest


_DUMP = {"sqlite": _dump_sqlite, "postgresql": _dump_postgresql}
_RESTORE = {"sqlite": _restore_sqlite, "postgresql": _restore_postgresql}

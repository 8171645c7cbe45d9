"""Archives: a site's data and secret key in one file, for SQLite and PostgreSQL alike.

An archive is a zip file of `manifest.json`, the secret key, and for each table a file of JSON
lines: a row each, its values in the order of the manifest's columns. The manifest names the last
migrations, and each table's rows and checksum. So an archive of an older version is restored by
creating its tables, filling them, and migrating them. Rows are read and written one after the
other, so memory does not grow with the site. The same data gives the same bytes on both databases.
"""

import json
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management import CommandError
from django.core.management.color import no_style
from django.db import DatabaseError, connection, models, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.models.functions import Collate
from django.utils import timezone
from pydantic import BaseModel, ConfigDict
from pydantic import ValidationError as InvalidManifest

from assay_common.files import write_whole
from webapp.core.database import DatabaseError as UnusableDatabaseError
from webapp.core.database import apply_migrations, described, newest_numbers, number
from webapp.operate.heartbeats import SILENCE
from webapp.operate.models import Heartbeat
from webapp.operate.replacing import empty_database

FORMAT = 1
MANIFEST = "manifest.json"
SECRET = "secret_key"  # noqa: S105 - the file's name
MANIFEST_BYTES = 1 << 20
SECRET_BYTES = 1 << 10
ROW_BYTES = 1 << 28
BATCH = 200  # rows
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same data gives the same file, whenever it is written

# Models that are not archived, and why nothing is lost: the site makes them anew.
CACHES = {
    "health.Heartbeat": "which processes are alive now",
    "health.Failure": "which tasks failed when they last ran",
    "learning.PostingsBlock": "which papers share terms, as their texts say",
    "learning.TermPostings": "which papers share terms, as their texts say",
    "papers.ArxivSlot": "whose turn it is to ask arXiv",
    "ui.Pending": "what waits to be made anew, as what is written raises it",
    "ui.Revision": "which kept pages are still current",
    "ui.Settled": "what need not be made anew",
}


class ArchiveError(CommandError):
    """An archive cannot be made or restored; the message says why and what to do."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ArchivedTable(_Strict):
    """The manifest's entry of one model's file."""

    columns: list[str]
    rows: int
    sha256: str  # of its lines


class Manifest(_Strict):
    """The description of an archive in itself."""

    format: int
    kind: Literal["assay export"]
    migrations: dict[str, list[str]]  # by app: the last ones
    tables: dict[str, ArchivedTable]  # by model


# Errors of zipfile, json, model fields, the databases and the disk for a damaged file.
UNUSABLE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError),
    *(ValueError, TypeError, KeyError, OverflowError, RecursionError, ArithmeticError),
    *(ValidationError, DatabaseError),
)


def write(target: Path, secret: bytes | None = None) -> Manifest:
    """Write the site's data and its secret key to `target`, whole or not at all, of one moment.

    The site may keep running, and its database may be of an older version. Raises ArchiveError if
    the file exists or cannot be written.
    """
    with _snapshot():
        loader = MigrationLoader(connection)
        applied = set(loader.applied_migrations)
        if not applied:
            raise ArchiveError("The database is empty: there is nothing to archive.")
        return write_version(target, loader, applied, _stored_rows, secret or _kept_secret())


def write_version(
    target: Path,
    loader: MigrationLoader,
    applied: set[tuple[str, str]],
    rows: Callable[[type[models.Model]], Iterable[tuple[Any, ...]]],
    secret: bytes | None,
) -> Manifest:
    """Write the rows of a version, which is given by its applied migrations."""
    leaves = _applied_leaves(loader, applied)
    tables = {}
    with new_file(target) as draft, zipfile.ZipFile(draft, "w") as archive:
        for label, model in archived_models(loader, leaves).items():
            with _member(archive, _file(label)) as file:
                tables[label] = _write_rows(model, rows(model), file)
        if secret:
            with _member(archive, SECRET) as file:
                file.write(secret)
        manifest = Manifest(
            format=FORMAT, kind="assay export", migrations=_by_app(leaves), tables=tables
        )
        with _member(archive, MANIFEST) as file:
            file.write(manifest.model_dump_json(indent=1).encode())
    return manifest


def restore(source: Path, *, force: bool = False) -> Manifest:
    """Replace the database and the secret key by those of an archive, or change nothing.

    Raises ArchiveError if the file is no archive, is damaged, or is of a newer version of Assay;
    and, without `force`, if a site is running on the database.
    """
    if not force:
        refuse_while_running()
    try:
        with zipfile.ZipFile(source) as archive:
            manifest = _checked_manifest(archive)
            secret = _checked_secret(archive)
            loader = MigrationLoader(None)
            leaves = _targets(loader, manifest.migrations)
            stored = _checked_models(archived_models(loader, leaves), manifest)
            with empty_database():
                MigrationExecutor(connection).migrate(leaves)
                _fill(stored, archive, manifest)
                apply_migrations()
                if lacking := described():
                    raise ValueError(lacking)
            if secret:  # without it sessions and workers' keys are not valid
                write_whole(settings.DATA_DIR / SECRET, secret, mode=0o600)
    except FileNotFoundError:
        raise ArchiveError(f"There is no file {source}.") from None
    except UnusableDatabaseError as error:
        raise ArchiveError(str(error)) from error
    except UNUSABLE as error:
        reason = " ".join(str(error).split())[:300]
        if isinstance(error, zipfile.BadZipFile):
            reason = f"it is no archive of a site, or was cut off or changed since ({reason})."
        raise ArchiveError(
            f"{source} cannot be restored, and nothing was changed: {reason}"
        ) from error
    return manifest


def refuse_while_running() -> None:
    """Raise ArchiveError if processes of a site used the database moments ago."""
    if connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists():
        return  # a look would make an empty file
    recent = Heartbeat.objects.filter(at__gte=timezone.now() - SILENCE)
    with suppress(DatabaseError):  # damaged, or empty: no site can be running on it
        if names := sorted(recent.values_list("name", flat=True)):
            raise ArchiveError(
                f"A site is running on this database ({', '.join(names)}): stop it and wait "
                f"{SILENCE.seconds} seconds, or add --force if it was killed."
            )


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield the file that becomes `target`, all at once and closed to others: it holds secrets.

    Raises ArchiveError if `target` exists or cannot be written.
    """
    if target.exists():
        raise ArchiveError(f"{target} is there already: choose another name.")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder:
            draft = Path(folder) / "draft"
            draft.touch(mode=0o600)
            yield draft
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            os.link(draft, target)  # fails if the file has been created meanwhile
    except OSError as error:
        raise ArchiveError(f"{target} cannot be written: {error.strerror or error}") from error


def archived_models(
    loader: MigrationLoader, leaves: list[tuple[str, str]]
) -> dict[str, type[models.Model]]:
    """Return the models of a version, by label: all that have a table, except CACHES."""
    every = loader.project_state(leaves).apps.get_models(include_auto_created=True)
    stored = [model for model in every if model._meta.managed and not model._meta.proxy]
    by_label = {model._meta.label: model for model in stored}
    return {label: by_label[label] for label in sorted(by_label.keys() - CACHES.keys())}


def _write_rows(
    model: type[models.Model], rows: Iterable[tuple[Any, ...]], file: IO[bytes]
) -> ArchivedTable:
    """Write rows, given in the order of the model's columns."""
    fields = archived_fields(model)
    digest, count = sha256(), 0
    for row in rows:
        values = [_portable(field, value) for field, value in zip(fields, row, strict=True)]
        line = json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        data = line.encode() + b"\n"
        digest.update(data)
        file.write(data)
        count += 1
    return ArchivedTable(columns=_columns(model), rows=count, sha256=digest.hexdigest())


def archived_fields(model: type[models.Model]) -> list[Any]:
    """Return the fields of a model that its database stores and does not compute."""
    return [field for field in model._meta.concrete_fields if not field.generated]


def _stored_rows(model: type[models.Model]) -> Iterable[tuple[Any, ...]]:
    names = [field.attname for field in archived_fields(model)]
    rows = model._base_manager.order_by(_by_key(model)).values_list(*names)
    return rows.iterator(BATCH)


def _checked_models(
    stored: dict[str, type[models.Model]], manifest: Manifest
) -> dict[str, type[models.Model]]:
    """Return the models of the archive's version. Raises ValueError if its tables are others."""
    expected = {label: sorted(_columns(model)) for label, model in stored.items()}
    if {label: sorted(table.columns) for label, table in manifest.tables.items()} != expected:
        raise ValueError("its tables are not those of its version")
    return stored


def _fill(
    stored: dict[str, type[models.Model]], archive: zipfile.ZipFile, manifest: Manifest
) -> None:
    """Fill the tables of the archive's version, as the only transaction that does."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for model in stored.values():  # what the migrations wrote
            model._base_manager.all()._raw_delete(connection.alias)
        for label, model in stored.items():
            with archive.open(_file(label)) as file:
                _read_rows(model, file, manifest.tables[label])
        connection.check_constraints()
        _continue_sequences(list(stored.values()))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def _read_rows(model: type[models.Model], file: IO[bytes], expected: ArchivedTable) -> None:
    """Insert a file's rows. Raises ValueError if they are not those of the manifest."""
    by_column = {field.column: field for field in archived_fields(model)}
    fields, label = [by_column[column] for column in expected.columns], model._meta.label
    digest, count = sha256(), 0
    quote = connection.ops.quote_name
    names = ", ".join(quote(field.column) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    insert = f"INSERT INTO {quote(model._meta.db_table)} ({names}) VALUES ({places})"  # noqa: S608
    lines = iter(lambda: file.readline(ROW_BYTES), b"")
    with connection.cursor() as cursor:
        while batch := list(islice(lines, BATCH)):
            for line in batch:
                digest.update(line)
            count += len(batch)
            if count > expected.rows:
                raise ValueError(f"{label} has more rows than the manifest says")
            cursor.executemany(insert, [_row(fields, label, line) for line in batch])
    if (count, digest.hexdigest()) != (expected.rows, expected.sha256):
        raise ValueError(f"the rows of {label} are not those that were archived")


def _row(fields: list[Any], label: str, line: bytes) -> list[Any]:
    """Return a line's values as the database takes them. Raises ValueError, ValidationError."""
    values = json.loads(line)
    if not isinstance(values, list) or len(values) != len(fields):
        raise ValueError(f"a row of {label} does not have its {len(fields)} values")
    return [_stored(field, value) for field, value in zip(fields, values, strict=True)]


def _portable(field: Any, value: Any) -> Any:
    """Return a value as JSON has it, of which every database can hold each part."""
    if isinstance(field, models.JSONField) or isinstance(value, str):
        return _without_unstorable(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return field.value_to_string(_Holder(field.attname, value))


def _stored(field: Any, value: Any) -> Any:
    if not isinstance(field, models.JSONField) and isinstance(value, list | dict):
        raise ValueError(f"{field.name} cannot be a {type(value).__name__}")
    if _without_unstorable(value) != value:
        raise ValueError(f"{field.name} holds a character that no database of Assay's can hold")
    return field.get_db_prep_save(field.to_python(value), connection)


class _Holder:
    """A row of one value, for `Field.value_to_string`."""

    def __init__(self, name: str, value: Any) -> None:
        setattr(self, name, value)


def _without_unstorable(value: Any) -> Any:
    """Return `value` without U+0000 and lone surrogates, which PostgreSQL cannot hold."""
    if isinstance(value, str):
        return value.replace("\0", "").encode(errors="ignore").decode()
    if isinstance(value, list):
        return [_without_unstorable(item) for item in value]
    if isinstance(value, dict):
        return {_without_unstorable(k): _without_unstorable(v) for k, v in value.items()}
    return value


def _checked_manifest(archive: zipfile.ZipFile) -> Manifest:
    """Return the manifest of an archive that holds the files it names."""
    names = archive.namelist()
    if MANIFEST not in names:
        raise ValueError("it is no archive of Assay")
    if archive.getinfo(MANIFEST).file_size > MANIFEST_BYTES:
        raise ValueError("its manifest is too large")
    content = json.loads(archive.read(MANIFEST))
    if isinstance(content, dict) and content.get("format", FORMAT) != FORMAT:
        raise ValueError(f"it has format {str(content['format'])[:20]}; this Assay reads {FORMAT}")
    try:
        manifest = Manifest.model_validate(content)
    except InvalidManifest as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"its manifest is not sound: {first['msg']}") from None
    expected = sorted([MANIFEST, *map(_file, manifest.tables)])
    if sorted(set(names) - {SECRET}) != expected or len(names) != len(set(names)):
        raise ValueError("it does not hold the files that an archive holds")
    needed = sum(member.file_size for member in archive.infolist())
    free = shutil.disk_usage(settings.DATA_DIR).free
    if needed > free:
        raise ValueError(f"it holds {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free here")
    return manifest


def _targets(loader: MigrationLoader, last: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return the migrations of this code that make an archive's tables."""
    squashed = {app: (app, name) for app, name in loader.replacements}
    newest = newest_numbers(loader)
    targets = []
    for app, names in last.items():
        if app not in newest:
            raise ValueError(f"it was made by a newer Assay (it has {app}): update the code")
        for name in names:
            node = (app, name)
            if node not in loader.graph.nodes and number(name) <= newest[app]:
                node = squashed.get(app, node)  # the tables of version 0.1.0
            if node not in loader.graph.nodes:
                raise ValueError(f"it was made by a newer Assay (it has {app}.{name})")
            targets.append(node)
    return targets


def _applied_leaves(
    loader: MigrationLoader, recorded: set[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the last applied migrations of each app."""
    squashed = {new for new, m in loader.replacements.items() if recorded.issuperset(m.replaces)}
    applied = {node for node in loader.graph.nodes if node in recorded | squashed}
    return sorted(
        node
        for node in applied
        if not any(
            child.key in applied and child.key[0] == node[0]
            for child in loader.graph.node_map[node].children
        )
    )


def _by_app(nodes: list[tuple[str, str]]) -> dict[str, list[str]]:
    by_app: dict[str, list[str]] = {}
    for app, name in nodes:
        by_app.setdefault(app, []).append(name)
    return by_app


def _continue_sequences(every: list[type[models.Model]]) -> None:
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), every):
            cursor.execute(statement)


def _kept_secret() -> bytes | None:
    path = settings.DATA_DIR / SECRET
    return path.read_bytes() if path.exists() else None  # else it is in ASSAY_SECRET_KEY


def _checked_secret(archive: zipfile.ZipFile) -> bytes:
    if SECRET not in archive.namelist():
        return b""
    if archive.getinfo(SECRET).file_size > SECRET_BYTES:
        raise ValueError("its secret key is too long")
    secret = archive.read(SECRET)
    if not secret.decode("ascii").isprintable() or len(secret) < 32:
        raise ValueError("its secret key is none that Assay made")
    return secret


def _columns(model: type[models.Model]) -> list[str]:
    return [field.column for field in archived_fields(model)]


def _by_key(model: type[models.Model]) -> Any:
    """Order by primary key; texts by their bytes, whatever the database's language."""
    key = model._meta.pk
    assert key is not None
    if isinstance(key, models.CharField):
        return Collate(key.name, "C" if connection.vendor == "postgresql" else "BINARY")
    return key.name


def _file(label: str) -> str:
    return f"tables/{label}.jsonl"


@contextmanager
def _member(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    info = zipfile.ZipInfo(name, LONG_AGO)
    info.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(info, "w", force_zip64=True) as file:
        yield file


@contextmanager
def _snapshot() -> Iterator[None]:
    """Read one moment of the database, and keep no writer waiting."""
    if connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            if not connection.savepoint_ids:  # within an upgrade it is one moment already
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield
        return
    # Django's own transactions would lock the file, since most of them write.
    with connection.cursor() as cursor:
        cursor.execute("BEGIN DEFERRED")
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")

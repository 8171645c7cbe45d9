"""Exports: a site's data in one file that is independent of the kind of database.

It is a zip archive of `manifest.json`, the site's secret key, and for each model a file of JSON
lines: a row each, its values in the order of the manifest's columns. The manifest names the schema
and each table's rows and checksum. Rows are read and written one after the other, so memory does
not grow with the site. The same data gives the same bytes on SQLite and PostgreSQL.

A backup (`webapp.operate.backup`) is faster, and is restored by any newer Assay; an export goes
from one kind of database to the other.
"""

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.core.management.color import no_style
from django.db import DatabaseError, connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.models.functions import Collate
from pydantic import BaseModel, ConfigDict
from pydantic import ValidationError as InvalidManifest

from assay_common.files import write_whole
from webapp.operate.backup import SECRET, BackupError, new_file, refuse_while_running

FORMAT = 1
MANIFEST = "manifest.json"
MANIFEST_BYTES = 1 << 20
SECRET_BYTES = 1 << 10
ROW_BYTES = 1 << 28
BATCH = 200  # rows
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same data gives the same file, whenever it is written

# Models that are not exported, and why nothing is lost: the site makes them anew.
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
# Filled by `migrate` itself: an import replaces these rows, so that others may refer to them.
SEEDED: tuple[type[models.Model], ...] = (Permission, ContentType)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ExportedTable(_Strict):
    """What the manifest says of one model's file."""

    columns: list[str]
    rows: int
    sha256: str  # of its lines


class ExportManifest(_Strict):
    """What an export says of itself."""

    format: int
    kind: Literal["assay export"]
    migrations: dict[str, list[str]]  # by app: the last ones
    tables: dict[str, ExportedTable]  # by model


def exported_models() -> dict[str, type[models.Model]]:
    """Every model that is exported, by its label: all with a table, except CACHES."""
    every = apps.get_models(include_auto_created=True)
    stored = [model for model in every if model._meta.managed and not model._meta.proxy]
    by_label = {model._meta.label: model for model in stored}
    return {label: by_label[label] for label in sorted(by_label.keys() - CACHES.keys())}


def export(target: Path) -> ExportManifest:
    """Write the site's data to `target`, whole or not at all, all of one moment; its manifest.

    The site may keep running. Raises BackupError if the folder cannot be written or the file
    exists.
    """
    tables = {}
    with new_file(target) as draft, zipfile.ZipFile(draft, "w") as archive, _snapshot():
        for label, model in exported_models().items():
            with _member(archive, _file(label)) as file:
                tables[label] = _write_rows(model, file)
        if secret := _kept_secret():
            with _member(archive, SECRET) as file:
                file.write(secret)
        manifest = ExportManifest(
            format=FORMAT, kind="assay export", migrations=_schema(), tables=tables
        )
        with _member(archive, MANIFEST) as file:
            file.write(manifest.model_dump_json(indent=1).encode())
    return manifest


def import_(source: Path) -> ExportManifest:
    """Fill an empty site with the data of an export, all of it or nothing; its manifest.

    Raises BackupError if the file is no export, is damaged, or is of another version of Assay, if
    this site holds data already, or if it is running.
    """
    refuse_while_running()
    try:
        with zipfile.ZipFile(source) as archive:
            manifest = _checked_manifest(archive)
            with transaction.atomic():
                _refuse_data()
                for model in SEEDED:
                    model._default_manager.all()._raw_delete(connection.alias)
                for label, model in exported_models().items():
                    with archive.open(_file(label)) as file:
                        _read_rows(model, file, manifest.tables[label])
                connection.check_constraints()
                _continue_sequences()
                _keep_secret(archive)
    except FileNotFoundError:
        raise BackupError(f"There is no file {source}.") from None
    except UNUSABLE as error:
        reason = " ".join(str(error).split())[:300]
        raise BackupError(
            f"{source} cannot be imported, and nothing was changed: {reason}"
        ) from error
    return manifest


# What zipfile, json, the fields of models and the databases raise of a file that is not sound.
UNUSABLE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError),
    *(ValueError, TypeError, KeyError, OverflowError, RecursionError, ArithmeticError),
    *(ValidationError, DatabaseError),
)


def _write_rows(model: type[models.Model], file: IO[bytes]) -> ExportedTable:
    fields = _fields(model)
    digest, count = sha256(), 0
    rows = model._base_manager.order_by(_by_key(model))
    for row in rows.values_list(*(field.attname for field in fields)).iterator(BATCH):
        values = [_portable(field, value) for field, value in zip(fields, row, strict=True)]
        line = json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        data = line.encode() + b"\n"
        digest.update(data)
        file.write(data)
        count += 1
    return ExportedTable(columns=_columns(model), rows=count, sha256=digest.hexdigest())


def _read_rows(model: type[models.Model], file: IO[bytes], expected: ExportedTable) -> None:
    """Insert a file's rows. Raises ValueError if they are not those of the manifest."""
    fields, label = _fields(model), model._meta.label
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
        raise ValueError(f"the rows of {label} are not those that were exported")


def _row(fields: list[Any], label: str, line: bytes) -> list[Any]:
    """A line's values as the database takes them. Raises ValueError, ValidationError."""
    values = json.loads(line)
    if not isinstance(values, list) or len(values) != len(fields):
        raise ValueError(f"a row of {label} does not have its {len(fields)} values")
    return [_stored(field, value) for field, value in zip(fields, values, strict=True)]


def _portable(field: Any, value: Any) -> Any:
    """A value as JSON has it, of which every database can hold each part."""
    if isinstance(field, models.JSONField):
        return _without_unstorable(value)
    if isinstance(value, str):
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
    """`value` without U+0000 and lone surrogates, which SQLite can hold and PostgreSQL cannot."""
    if isinstance(value, str):
        return value.replace("\0", "").encode(errors="ignore").decode()
    if isinstance(value, list):
        return [_without_unstorable(item) for item in value]
    if isinstance(value, dict):
        return {_without_unstorable(k): _without_unstorable(v) for k, v in value.items()}
    return value


def _checked_manifest(archive: zipfile.ZipFile) -> ExportManifest:
    """The manifest, of an archive that holds what it says and fits this site's schema."""
    names = archive.namelist()
    if MANIFEST not in names:
        raise ValueError("it is no export of Assay")
    if archive.getinfo(MANIFEST).file_size > MANIFEST_BYTES:
        raise ValueError("its manifest is too large")
    content = json.loads(archive.read(MANIFEST))
    if isinstance(content, dict) and content.get("format", FORMAT) != FORMAT:
        raise ValueError(f"it has format {str(content['format'])[:20]}; this Assay reads {FORMAT}")
    try:
        manifest = ExportManifest.model_validate(content)
    except InvalidManifest as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"its manifest is not sound: {first['msg']}") from None
    if differ := sorted(
        app
        for app in manifest.migrations.keys() | _schema().keys()
        if manifest.migrations.get(app) != _schema().get(app)
    ):
        raise ValueError(
            f"it is of another version of Assay (its tables differ in {', '.join(differ)[:200]}). "
            "Import it with the version that exported it, then update"
        )
    columns = {label: _columns(model) for label, model in exported_models().items()}
    if {label: table.columns for label, table in manifest.tables.items()} != columns:
        raise ValueError("its tables are not those of this version")
    expected = sorted([MANIFEST, *map(_file, columns)])
    if sorted(set(names) - {SECRET}) != expected or len(names) != len(set(names)):
        raise ValueError("it does not hold the files that an export holds")
    needed = sum(member.file_size for member in archive.infolist())
    free = shutil.disk_usage(settings.DATA_DIR).free
    if needed > free:
        raise ValueError(f"it holds {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free here")
    return manifest


def _refuse_data() -> None:
    """Raises BackupError if the site has data; nobody can add any before the import is over."""
    targets = [model for model in exported_models().values() if model not in SEEDED]
    if connection.vendor == "postgresql":  # SQLite has one writer at a time
        tables = ", ".join(connection.ops.quote_name(model._meta.db_table) for model in targets)
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE")
    if present := [
        f"{count} of {model._meta.label}"
        for model in targets
        if (count := model._base_manager.count())
    ]:
        more = f" and {len(present) - 3} more tables" if len(present) > 3 else ""
        raise BackupError(
            f"This site is not empty (it has {', '.join(present[:3])}{more}), and an import adds "
            "to no other data. Choose an empty one, with --data or DATABASE_URL."
        )


def _continue_sequences() -> None:
    every = list(exported_models().values())
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), every):
            cursor.execute(statement)


def _kept_secret() -> bytes | None:
    path = settings.DATA_DIR / SECRET
    return path.read_bytes() if path.exists() else None  # else it is in ASSAY_SECRET_KEY


def _keep_secret(archive: zipfile.ZipFile) -> None:
    if SECRET in archive.namelist():
        if archive.getinfo(SECRET).file_size > SECRET_BYTES:
            raise ValueError("its secret key is too long")
        secret = archive.read(SECRET)
        if not secret.decode("ascii").isprintable() or len(secret) < 32:
            raise ValueError("its secret key is none that Assay made")
        write_whole(settings.DATA_DIR / SECRET, secret, mode=0o600)


def _schema() -> dict[str, list[str]]:
    """The last migrations of each app of this code."""
    schema: dict[str, list[str]] = {}
    for app, name in sorted(MigrationLoader(None).graph.leaf_nodes()):
        schema.setdefault(app, []).append(name)
    return schema


def _fields(model: type[models.Model]) -> list[Any]:
    return [field for field in model._meta.concrete_fields if not field.generated]


def _columns(model: type[models.Model]) -> list[str]:
    return [field.column for field in _fields(model)]


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
    """What is read within is of one moment, and keeps no writer waiting."""
    if connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
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

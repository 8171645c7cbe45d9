"""Backups that version 0.1.0 made, as archives.

Such a backup is a gzipped tar of `manifest.json`, `secret_key`, and the file of SQLite or what COPY
of PostgreSQL wrote of each table.
"""

import json
import re
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, models
from django.db.migrations.loader import MigrationLoader
from pydantic import BaseModel, ValidationError

from webapp.operate import archive
from webapp.operate.replacing import connected_to

GZIP = b"\x1f\x8b"
DATABASE = "database.sqlite3"
PIECE = 1 << 20
MEMBER = re.compile(
    r"manifest\.json|secret_key|database\.sqlite3|tables/\w+(?:\.columns)?", re.ASCII
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class _Manifest(BaseModel):
    database: str
    migrations: list[tuple[str, str]]


@contextmanager
def readable(source: Path) -> Iterator[Path]:
    """Yield `source`, or where it is such a backup a temporary archive of the same data.

    Raises ArchiveError.
    """
    if not _is_gzip(source):
        yield source
        return
    with tempfile.TemporaryDirectory(dir=settings.DATA_DIR, prefix=".restore-") as name:
        folder = Path(name)
        (folder / "tables").mkdir()
        try:
            _unpack(source, folder)
            _convert(folder, folder / "archive")
        except (
            *(tarfile.TarError, EOFError, OSError, zlib.error, ValueError, TypeError, KeyError),
            *(sqlite3.Error, DatabaseError, RecursionError),
        ) as error:
            reason = " ".join(str(error).split())[:300]
            raise archive.ArchiveError(
                f"{source} cannot be restored, and nothing was changed: {reason}"
            ) from error
        yield folder / "archive"


def _is_gzip(source: Path) -> bool:
    try:
        with source.open("rb") as file:
            return file.read(2) == GZIP
    except OSError:
        return False


def _unpack(source: Path, folder: Path) -> None:
    """Extract the files that a backup has and no others, and verify the checksum at the end."""
    free = shutil.disk_usage(folder).free // 2  # it is written once more
    with tarfile.open(source, "r:gz") as members:
        for member in members:
            is_ours = member.isreg() and MEMBER.fullmatch(member.name)
            stream = members.extractfile(member) if is_ours else None
            if stream is None or (folder / member.name).exists():
                raise ValueError(f"it is no backup of Assay: it holds {member.name[:80]!r}")
            free -= member.size
            if free < 0:
                raise ValueError("it holds more than there is room for on this disk")
            with (folder / member.name).open("wb") as file:
                shutil.copyfileobj(stream, file, PIECE)
        assert members.fileobj
        while members.fileobj.read(PIECE):  # to the end, where gzip's checksum is verified
            pass


def _convert(folder: Path, target: Path) -> None:
    try:
        manifest = _Manifest.model_validate_json((folder / "manifest.json").read_bytes())
    except FileNotFoundError:
        raise ValueError("it has no manifest") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"its manifest is not sound: {first['msg']}") from None
    secret = folder / archive.SECRET
    key = secret.read_bytes() if secret.exists() else b""
    if manifest.database == "sqlite":
        if connection.vendor != "sqlite":
            raise ValueError(
                "version 0.1.0 made it of SQLite's file: restore it without DATABASE_URL, in an "
                "empty directory, and make a backup there, which this database takes"
            )
        _convert_sqlite(folder / DATABASE, target, key)
        return
    loader = MigrationLoader(None)

    def rows(model: type[models.Model]) -> Iterator[tuple[Any, ...]]:
        return _copied(model, folder / "tables" / model._meta.db_table)

    archive.write_version(target, loader, {*manifest.migrations}, rows, key)


def _convert_sqlite(database: Path, target: Path, secret: bytes) -> None:
    if not database.exists():
        raise ValueError("it lacks its database")
    with closing(sqlite3.connect(database)) as copy:
        (answer,) = copy.execute("PRAGMA quick_check").fetchone()
    if answer != "ok":
        raise ValueError(f"its database is damaged: {answer}")
    with connected_to(database):
        archive.write(target, secret)


def _copied(model: type[models.Model], file: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that COPY wrote (https://www.postgresql.org/docs/current/sql-copy.html)."""
    if not file.exists():
        raise ValueError(f"it lacks the table {file.name}")
    columns: list[str] = json.loads(file.with_name(f"{file.name}.columns").read_text())
    fields = archive.archived_fields(model)
    places = [columns.index(field.column) for field in fields]
    with file.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            values = line.removesuffix("\n").split("\t")
            yield tuple(
                _value(field, values[place]) for field, place in zip(fields, places, strict=True)
            )


def _value(field: Any, written: str) -> Any:
    if written == r"\N":
        return None
    text = _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), written)
    stored: str | bytes = text
    if field.db_type(connection) in {"BLOB", "bytea"}:
        stored = bytes.fromhex(text.removeprefix("\\x"))
    if hasattr(field, "from_db_value"):
        return field.from_db_value(stored, None, connection)
    return stored if isinstance(field, models.BinaryField) else field.to_python(stored)

"""Backup and restore as an operator does them: whole processes, on both databases."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from tests import forking
from tests.processes import ROOT
from webapp.operate import backup
from webapp.operate.backup import BackupError, back_up, restore
from webapp.operate.models import Heartbeat

SETUP = """
import django; django.setup()
from django.conf import settings
from django.core.management import call_command
from webapp.papers.models import Paper
from webapp.papers.search import search

def write(first, last):
    for n in range(first, last):
        Paper.objects.create(arxiv_id=f"2601.{n:05d}", title=f"Sparse {n}", title_html="",
            abstract="A ↯ tab\\there", abstract_html="", authors=[{"name": "A"}], categories=["a"])

def tell():
    last = Paper.objects.order_by("pk").last()
    new = Paper.objects.create(arxiv_id="2602.00001", title="New", abstract="x",
        title_html="", abstract_html="", authors=[], categories=[])
    Paper.objects.filter(pk=new.pk)._raw_delete("default")
    print(Paper.objects.count(), last.abstract, len(search("sparse").papers), new.pk > last.pk,
        settings.SECRET_KEY[:8])
"""
OLDER = """
call_command("migrate", "papers", verbosity=0)
for app in ("health", "auth", "sessions"):
    call_command("migrate", app, verbosity=0)
write(0, 30)
tell()
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """A DATABASE_URL of its own; empty for the file in the data directory."""
    if request.param == "sqlite":
        yield ""
        return
    server = request.getfixturevalue("postgresql_url")
    name = f"backup_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        yield server.rpartition("/")[0] + "/" + name
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


class Site:
    """Assay's commands on a data directory and a database."""

    def __init__(self, data: Path, database: str) -> None:
        data.mkdir()
        self.data = data
        self._environment = {
            **{k: v for k, v in os.environ.items() if k != "DATABASE_URL"},
            "ASSAY_DATA": str(data),
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            **({"DATABASE_URL": database} if database else {}),
        }

    def manage(self, *words: object) -> str:
        """What a command of Assay prints."""
        return self._run(forking.manage(*map(str, words)))

    def python(self, code: str) -> str:
        """What `code` prints."""
        return self._run(forking.program(SETUP + code))

    def writer(self) -> subprocess.Popen[bytes]:
        """A process that adds papers until it is killed."""
        # A pause at each: what it writes meanwhile counts, not how much.
        add = "\nimport time\nfor n in range(100, 99_999): write(n, n + 1); time.sleep(0.02)"
        return subprocess.Popen(forking.program(SETUP + add), cwd=ROOT, env=self._environment)

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.mark.slow
def test_a_backup_of_an_older_site_that_goes_on_writing(database: str, tmp_path: Path) -> None:
    site = Site(tmp_path / "data", database)
    before = site.python(OLDER).split()
    assert before[:7] == ["30", "A", "↯", "tab", "here", "25", "True"]
    file = tmp_path / "assay.backup"
    writer = site.writer()
    written = site.python(
        "while (n := Paper.objects.count()) < 35: pass\n"  # what SQLite keeps beside its file
        f"call_command('backup', {str(file)!r})\n"
        "Paper.objects.all()._raw_delete('default')\nprint(n)"
    )
    writer.kill()
    writer.wait()
    assert file.stat().st_mode & 0o777 == 0o600
    (site.data / "secret_key").write_text("lost")

    assert "Restored" in site.manage("restore", file)
    after = site.python("call_command('showmigrations', plan=True)\ntell()")
    assert "[ ]" not in after
    count, *rest = after.splitlines()[-1].split()
    assert int(count) >= int(written.split()[-1]) >= 35
    assert rest == before[1:]  # text, index, sequence, secret


NEWER = """
from django.db import connection
Heartbeat.objects.all().delete()  # else the site counts as running
MigrationRecorder(connection).record_applied("papers", "0999_of_a_newer_version")
"""


@pytest.mark.slow
def test_a_newer_or_damaged_database_is_replaced(database: str, tmp_path: Path) -> None:
    """It is what a backup is for: to go back after an upgrade, or when the file is damaged."""
    site = Site(tmp_path / "data", database)
    before = site.python(OLDER)
    file = tmp_path / "assay.backup"
    beat = "from webapp.operate import heartbeats\nheartbeats.store('beat', 'beat')\n"
    site.python(f"{beat}call_command('backup', {str(file)!r})")
    recorder = "from django.db.migrations.recorder import MigrationRecorder\n"
    heartbeat = "from webapp.operate.models import Heartbeat\n"
    site.python(recorder + heartbeat + NEWER)
    assert "Restored" in site.manage("restore", file)
    assert site.python(f"{heartbeat}print(Heartbeat.objects.count())") == "0\n"
    assert site.python("tell()") == before
    if not database:
        (site.data / "assay.sqlite3").write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
        assert "Restored" in site.manage("restore", file)
        assert site.python("tell()") == before


WRITE_MEANWHILE = """
from django.db import connection
from webapp.operate import backup
call_command("migrate", verbosity=0)
columns, other = backup._columns, connection.copy()

def columns_after_a_write(table):
    with other.cursor() as cursor:
        row = "INSERT INTO health_heartbeat (kind, name, at) VALUES ('queue', %s, now())"
        cursor.execute(row, [table])
    return columns(table)

backup._columns = columns_after_a_write
"""


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_tables_are_of_one_moment(database: str, tmp_path: Path) -> None:
    file = tmp_path / "assay.backup"
    site = Site(tmp_path / "data", database)
    site.python(f"{WRITE_MEANWHILE}call_command('backup', {str(file)!r})")
    with tarfile.open(file) as archive:
        heartbeats = archive.extractfile("tables/health_heartbeat")
        assert heartbeats is not None
        assert heartbeats.read() == b""


@pytest.mark.django_db(transaction=True)
def test_what_is_refused(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "assay.backup"
    (settings.DATA_DIR / "connections.json").write_text("{}")  # others' keys stay where they are
    back_up(file)
    with tarfile.open(file) as archive:
        assert not [name for name in archive.getnames() if "connections" in name]
    User.objects.create(username="ada")
    usage = shutil.disk_usage(tmp_path)._replace(free=100_000_000)  # a small disk
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    garbage, cut, foreign = tmp_path / "garbage", tmp_path / "cut", tmp_path / "foreign"
    garbage.write_bytes(b"no backup")
    cut.write_bytes(file.read_bytes()[:-500])
    with tarfile.open(foreign, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../../escape"), io.BytesIO())
    newer = repacked(file, tmp_path / "newer", lambda m: m["migrations"].append(["papers", "0999"]))
    other = repacked(file, tmp_path / "other", lambda m: m.update(database="oracle"))
    format_2 = repacked(file, tmp_path / "format", lambda m: m.update(format=2))
    changed = tmp_path / "changed"
    changed.write_bytes(file.read_bytes()[:-8] + bytes(8))  # another checksum and size
    bare = repacked(file, tmp_path / "bare", lambda m: None, drop=("database", "tables/papers"))
    data = ("database", "tables/papers_paper")
    spoiled = repacked(file, tmp_path / "spoiled", lambda m: None, spoil=data)
    holed = repacked(file, tmp_path / "holed", lambda m: None, spoil=data, keep=4096)
    hostile = hostile_files(file, tmp_path)
    before = list(User.objects.values_list("username", flat=True))
    for source, words in {
        **hostile,
        tmp_path / "none": "There is no file",
        garbage: "is no backup, or a damaged one",
        cut: "is no backup, or a damaged one",
        foreign: "it holds '../../escape'",
        newer: r"newer Assay \(it has papers.0999\)",
        other: "is of oracle",
        format_2: "has format 2",
        changed: "is no backup, or a damaged one",
        bare: "lacks (its database|the table)",
        spoiled: "cannot be restored, and nothing was changed",
        holed: "is damaged|nothing was changed",
    }.items():
        with pytest.raises(BackupError, match=words) as refusal:
            restore(source)
        assert "\n" not in str(refusal.value)
        assert list(User.objects.values_list("username", flat=True)) == before
    assert not [*settings.DATA_DIR.glob(".restore-*"), *settings.DATA_DIR.glob("*.restored*")]
    monkeypatch.undo()
    with pytest.raises(BackupError, match="is there already"):
        back_up(file)
    late = tmp_path / "late"
    monkeypatch.setattr(backup, "_dump", lambda _: late.write_text("of another process"))
    with pytest.raises(BackupError, match="cannot be written"):
        back_up(late)
    assert late.read_text() == "of another process"
    monkeypatch.undo()
    if connection.vendor == "sqlite":  # PostgreSQL waits for who writes
        connection.cursor().execute("PRAGMA busy_timeout = 100")
        with closing(sqlite3.connect(connection.settings_dict["NAME"])) as writer:
            writer.execute("BEGIN IMMEDIATE")
            with pytest.raises(BackupError, match="Another process is using the database"):
                restore(file, force=True)
    with pytest.raises(BackupError, match="cannot be written"):
        back_up(tmp_path / "no" / "such" / "folder")
    Heartbeat.objects.create(kind="beat", name="beat", at=timezone.now())
    with pytest.raises(BackupError, match="A site is running"):
        restore(file)


def hostile_files(file: Path, tmp_path: Path) -> dict[Path, str]:
    """Files that mean harm, each with what is said of it."""
    again = tmp_path / "again"
    with tarfile.open(again, "w:gz") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("manifest.json"), io.BytesIO())
    link = tmp_path / "link"
    with tarfile.open(link, "w:gz") as archive:
        member = tarfile.TarInfo("secret_key")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    shape = repacked(file, tmp_path / "shape", lambda m: m.update(migrations=[["papers"], 3]))
    no_date = repacked(file, tmp_path / "date", lambda m: m.pop("made_at"))
    nested = repacked(file, tmp_path / "nested", lambda m: m.update(made_at=nest(500)))
    fewer = repacked(file, tmp_path / "fewer", lambda m: m["migrations"].pop())
    bomb = tmp_path / "bomb"
    with tarfile.open(bomb, "w:gz", compresslevel=9) as archive:
        member = tarfile.TarInfo("secret_key")
        member.size = 200_000_000
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    said = {
        again: "it holds 'manifest.json'",
        link: "it holds 'secret_key'",
        shape: r"manifest is not sound: migrations\.0",
        no_date: "manifest is not sound: made_at: Field required",
        nested: "manifest is not sound",
        bomb: "more than there is room for",
    }
    if connection.vendor == "sqlite":
        said[fewer] = "not the one that its manifest"
    return said


def nest(depth: int) -> Any:
    return [nest(depth - 1)] if depth else []


@pytest.mark.slow  # and so not run on PostgreSQL, whose tables our own migrations make
@pytest.mark.django_db(transaction=True)
def test_a_file_of_other_tables_replaces_nothing(tmp_path: Path, settings: Any) -> None:
    """Sound as a file, and its manifest says what it should."""
    file = tmp_path / "assay.backup"
    back_up(file)
    for name, change in {
        "column": "ALTER TABLE digests_star DROP COLUMN created_at",
        "table": "DROP TABLE digests_star",
    }.items():
        content = tmp_path / name
        with tarfile.open(file) as archive:
            archive.extractall(content, filter="data")
        with closing(sqlite3.connect(content / "database.sqlite3")) as copy:
            copy.create_function("index_words", 1, str)
            copy.execute(change)
        with tarfile.open(tmp_path / f"{name}.backup", "w:gz") as archive:
            for path in filter(Path.is_file, content.rglob("*")):
                archive.add(path, arcname=str(path.relative_to(content)))
        User.objects.get_or_create(username="ada")
        with pytest.raises(BackupError, match=r"table digests_star lacks .*created_at"):
            restore(tmp_path / f"{name}.backup")
        assert User.objects.get().username == "ada"


def repacked(
    source: Path,
    target: Path,
    change: object,
    *,
    drop: tuple[str, ...] = (),
    spoil: tuple[str, ...] = (),
    keep: int = 0,
) -> Path:
    """The backup with a changed manifest, without some files, and nonsense in some behind `keep`.

    Such a file is sound itself: what damaged the data did so before it was packed.
    """
    with tarfile.open(source) as old, tarfile.open(target, "w:gz") as new:
        for member in old:
            content = old.extractfile(member).read()  # type: ignore[union-attr]
            if member.name == "manifest.json":
                manifest = json.loads(content)
                change(manifest)  # type: ignore[operator]
                content = json.dumps(manifest).encode()
                member.size = len(content)
            if member.name.startswith(spoil):
                content = content[:keep] + b"nonsense" * (1 + len(content[keep:]) // 8)
                member.size = len(content)
            if not member.name.startswith(drop):
                new.addfile(member, io.BytesIO(content))
    return target

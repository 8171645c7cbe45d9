"""Backup and restore as an operator does them, from either database to either."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from tests import databases, forking
from tests.processes import ROOT
from webapp.operate.archive import CACHES, ArchiveError, restore, write
from webapp.operate.models import Heartbeat
from webapp.operate.replacing import connected_to
from webapp.papers.models import Paper

FILL = "import django; django.setup()\nfrom tests.operate import sites\nsites.fill()"
# As readers find it, and that what comes next is new.
LOOK = """
import django; django.setup()
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from django.contrib.auth.models import User
from webapp.library.models import Star, LibraryEntry
from webapp.papers.models import Paper
from webapp.papers.search import search
from webapp.runs.models import Run, Series

call_command("collectstatic", verbosity=0, interactive=False)
reader = Client()
reader.force_login(User.objects.get(username="reader"))
for page in ("/search?q=attention", "/papers/2603.00049/", "/library/", "/runs/", "/methods/"):
    assert reader.get(page, headers={"host": "localhost"}).status_code == 200, page
print(Paper.objects.count(), len(search("attention").papers), Star.objects.count())
print(repr(LibraryEntry.objects.get().note), Run.objects.count(), Series.objects.count())
print(settings.SECRET_KEY)
last = Paper.objects.order_by("pk").last()
assert Paper.objects.create(arxiv_id="2602.00001", title="n", abstract="x").pk > last.pk
"""


class Site:
    """Assay's commands on a data directory, and on a database of PostgreSQL if one is given."""

    def __init__(self, data: Path, database: str = "") -> None:
        self.data = data
        self._environment = {
            **os.environ,
            "ASSAY_DATA": str(data),
            "DATABASE_URL": database,
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
        }

    def manage(self, *words: object) -> subprocess.CompletedProcess[str]:
        """A command of Assay."""
        return self._run(forking.manage(*map(str, words)))

    def python(self, code: str) -> str:
        """Run `code` and return its output."""
        done = self._run(forking.program(code))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False
        )


@contextmanager
def new_database(server: str) -> Iterator[str]:
    name = f"transfer_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        yield server.rpartition("/")[0] + "/" + name
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Path]:
    """A site on SQLite with a row of everything, and its archive."""
    folder = tmp_path_factory.mktemp("exported")
    site = Site(folder / "data")
    site.manage("migrate")
    site.python(FILL)
    said = site.manage("backup", folder / "site.export")
    assert "rows of" in said.stdout, said.stderr
    return site, folder / "site.export"


@pytest.fixture
def _alone(transactional_db: None, tmp_path: Path) -> Iterator[None]:
    """Use a file of SQLite that no thread of an earlier test has open: it could not be replaced."""
    if connection.vendor != "sqlite":
        yield
        return
    databases.copy_to(tmp_path / "alone.sqlite3")
    with connected_to(tmp_path / "alone.sqlite3"):
        yield


def contents(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
def test_from_sqlite_to_postgresql_and_back_nothing_changes(
    exported: tuple[Site, Path], postgresql_url: str, tmp_path: Path
) -> None:
    site, first = exported
    with new_database(postgresql_url) as url:
        there, second = Site(tmp_path / "there", url), tmp_path / "second"
        said = there.manage("restore", first)
        assert said.stdout.startswith("Restored"), said.stderr
        assert "archived" not in said.stderr
        there.manage("backup", second)
        seen_there = there.python(LOOK)
    back, third = Site(tmp_path / "back"), tmp_path / "third"
    assert back.manage("restore", second).returncode == 0
    back.manage("backup", third)
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()
    seen = site.python(LOOK)
    assert seen == seen_there == back.python(LOOK)
    assert "中文" in seen
    assert first.stat().st_mode & 0o777 == 0o600
    assert (back.data / "secret_key").stat().st_mode & 0o777 == 0o600


def test_every_model_is_archived_with_rows_or_is_a_cache(exported: tuple[Site, Path]) -> None:
    """A new model fails here until `tests.operate.sites` has a row of it, or CACHES its reason."""
    _, file = exported
    rows = {
        name.removeprefix("tables/").removesuffix(".jsonl"): len(content.splitlines())
        for name, content in contents(file).items()
        if name.startswith("tables/")
    }
    every = {m._meta.label for m in apps.get_models(include_auto_created=True)}
    assert every - CACHES.keys() == rows.keys()
    assert not [name for name, count in rows.items() if not count]


def test_the_manifest_counts_and_checks(exported: tuple[Site, Path]) -> None:
    _, file = exported
    found = contents(file)
    for label, table in json.loads(found["manifest.json"])["tables"].items():
        lines = found[f"tables/{label}.jsonl"]
        assert table["rows"] == lines.count(b"\n")
        assert table["sha256"] == sha256(lines).hexdigest()


Change = Callable[[dict[str, Any], dict[str, bytes]], object]


def repacked(source: Path, target: Path, change: Change) -> Path:
    """The archive with another manifest or other files, its checksums made to fit."""
    files = contents(source)
    manifest = json.loads(files.pop("manifest.json"))
    before = dict(files)
    change(manifest, files)
    for name, content in files.items():
        if before.get(name) != content and name.startswith("tables/"):
            table = manifest["tables"][name.removeprefix("tables/").removesuffix(".jsonl")]
            table.update(rows=content.count(b"\n"), sha256=sha256(content).hexdigest())
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, content in files.items():
            archive.writestr(name, content)
    return target


PAPERS = "tables/papers.Paper.jsonl"
STARS = "tables/library.Star.jsonl"


def first_row(edit: Callable[[list[Any]], object], name: str = PAPERS) -> Change:
    def change(_: dict[str, Any], files: dict[str, bytes]) -> None:
        line, _newline, rest = files[name].partition(b"\n")
        row = json.loads(line)
        edit(row)
        files[name] = json.dumps(row).encode() + b"\n" + rest

    return change


def lose_a_row(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    files[PAPERS] = files[PAPERS].partition(b"\n")[2]


BROKEN: dict[str, tuple[Change, str]] = {
    "format": (lambda m, _: m.update(format=2), "has format 2"),
    "manifest": (lambda m, _: m.pop("tables"), "manifest is not sound: Field required"),
    "newer": (lambda m, _: m["migrations"].update(papers=["0999"]), "made by a newer Assay"),
    "app": (lambda m, _: m["migrations"].update(future=["0001"]), "made by a newer Assay"),
    "columns": (lambda m, _: m["tables"]["papers.Paper"]["columns"].pop(), "not those of its"),
    "table": (lambda _, f: f.pop(STARS), "does not hold the files"),
    "escape": (lambda _, f: f.update({"../../escape": b""}), "does not hold the files"),
    "number": (first_row(lambda row: row.__setitem__(2, "many")), "value must be an integer"),
    "nul": (first_row(lambda row: row.__setitem__(3, "a\0b")), "holds a character"),
    "null": (first_row(lambda row: row.__setitem__(3, None)), "NULL|null"),
    "reference": (lose_a_row, "foreign key"),
    "nested": (lambda _, f: f.update({PAPERS: b"[" * 100_000 + b"\n"}), "recursion"),
    "secret": (lambda _, f: f.update(secret_key=b"short"), "secret key is none"),
    "long secret": (lambda _, f: f.update(secret_key=b"x" * 5000), "secret key is too long"),
}


def nothing_changed() -> bool:
    return not Paper.objects.exists() and not User.objects.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("_alone")
def test_a_broken_or_hostile_file_is_one_sentence_and_changes_nothing(
    exported: tuple[Site, Path], tmp_path: Path, settings: Any
) -> None:
    _, file = exported
    settings.DATA_DIR = tmp_path
    for name, (change, words) in BROKEN.items():
        source = repacked(file, tmp_path / name, change)
        with pytest.raises(ArchiveError, match=words) as refusal:
            restore(source)
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 500, name
        assert nothing_changed(), name
    whole = file.read_bytes()
    at = whole.index(PAPERS.encode()) + 500
    for name, content in {
        "empty": b"",
        "garbage": b"no archive" * 100,
        "cut": whole[: len(whole) // 2],
        "bent": whole[:at] + bytes(99) + whole[at + 99 :],
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ArchiveError, match="cannot be restored, and nothing was changed"):
            restore(tmp_path / name)
        assert nothing_changed(), name
    with pytest.raises(ArchiveError, match="no archive of a site, or was cut off"):
        restore(tmp_path / "cut")
    with pytest.raises(ArchiveError, match="There is no file"):
        restore(tmp_path / "none")
    with pytest.raises(ArchiveError, match="cannot be restored"):
        restore(tmp_path)
    assert not (tmp_path / "secret_key").exists()


@pytest.mark.usefixtures("_alone")
def test_more_rows_than_were_counted_are_refused_on_the_way(
    exported: tuple[Site, Path], tmp_path: Path
) -> None:
    _, file = exported

    def many(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
        files[STARS] *= 2
        manifest["tables"]["library.Star"]["rows"] = 1

    source = repacked(file, tmp_path / "many", lambda m, f: None)
    files = contents(source)
    manifest = json.loads(files.pop("manifest.json"))
    many(manifest, files)
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, content in files.items():
            archive.writestr(name, content)
    with pytest.raises(ArchiveError, match=r"library\.Star has more rows"):
        restore(source)
    assert nothing_changed()


@pytest.mark.django_db(transaction=True)
def test_a_bomb_is_refused_before_it_is_unpacked(
    exported: tuple[Site, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, file = exported
    bomb = repacked(file, tmp_path / "bomb", lambda _, f: f.update({STARS: b"[]\n" * 5_000_000}))
    assert bomb.stat().st_size < 5_000_000
    usage = shutil.disk_usage(tmp_path)._replace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)  # a small disk
    with pytest.raises(ArchiveError, match=r"holds .* GB, and 0\.0 GB are free"):
        restore(bomb)
    huge = repacked(file, tmp_path / "huge", lambda m, _: m.update(kind="x" * 2_000_000))
    with pytest.raises(ArchiveError, match="manifest is too large"):
        restore(huge)


@pytest.mark.django_db(transaction=True)
def test_a_running_site_is_refused(exported: tuple[Site, Path]) -> None:
    _, file = exported
    Heartbeat.objects.create(kind="beat", name="beat", at=timezone.now())
    with pytest.raises(ArchiveError, match="A site is running"):
        restore(file)


@pytest.mark.slow
def test_what_one_database_alone_can_hold_is_left_out(tmp_path: Path) -> None:
    site, there = Site(tmp_path / "site"), Site(tmp_path / "there")
    site.manage("migrate")
    site.python(
        "import django; django.setup()\n"
        "from webapp.papers.models import ArxivSlot, Paper\n"
        "from webapp.digests.models import Profile\n"
        "from django.utils import timezone\n"
        "ArxivSlot.objects.create(free_at=timezone.now())\n"
        "marks = [{'name': 'x\\ud800\\0'}]\n"
        "Paper.objects.create(arxiv_id='1', title='t', abstract='', comment='a\\0b')\n"
        "Profile.objects.create(slug='p', keywords=marks)"
    )
    site.manage("backup", tmp_path / "file")
    there.manage("restore", tmp_path / "file")
    assert (
        there.python(
            "import django; django.setup()\n"
            "from webapp.papers.models import ArxivSlot, Paper\n"
            "from webapp.digests.models import Profile\n"
            "print(Paper.objects.get().comment, Profile.objects.get(slug='p').keywords,"
            " ArxivSlot.objects.count())"
        )
        == "ab [{'name': 'x'}] 0\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("made_on", ["sqlite", "postgresql"])
def test_backups_of_the_first_version_are_restored(made_on: str, tmp_path: Path) -> None:
    backup = Path(__file__).with_name(f"{made_on}-0.1.0.backup")
    site = Site(tmp_path / "data")
    done = site.manage("restore", backup)
    assert done.stdout.startswith("Restored 1,8"), done.stderr
    assert "中文" in site.python(LOOK)
    assert not list(site.data.glob(".restore-*"))


@pytest.mark.django_db(transaction=True)
def test_an_archive_never_replaces_a_file(tmp_path: Path) -> None:
    write(tmp_path / "file")
    with pytest.raises(ArchiveError, match="is there already"):
        write(tmp_path / "file")
    with pytest.raises(ArchiveError, match="cannot be written"):
        write(tmp_path / "no" / "folder")
    assert not list(tmp_path.glob(".*"))

"""Upgrades: an archive first, all or nothing, and one sentence where it fails."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests import forking
from tests.processes import ROOT

# What 0.1.0 wrote: a site with a row of everything.
BACKUP = Path(__file__).with_name("sqlite-0.1.0.backup")
pytestmark = pytest.mark.slow


class Site:
    """Assay's commands on a data directory with the database of version 0.1.0."""

    def __init__(self, data: Path) -> None:
        self.data = data
        data.mkdir()
        with tarfile.open(BACKUP) as files:
            files.extract("database.sqlite3", data, filter="data")
        self.file = (data / "database.sqlite3").rename(data / "assay.sqlite3")

    def start(self, *words: str, code: str = "") -> subprocess.Popen[str]:
        """Start a command, or `code` in a process of the site."""
        environment = {
            **{k: v for k, v in os.environ.items() if k != "DATABASE_URL"},
            "ASSAY_DATA": str(self.data),
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
        }
        return subprocess.Popen(
            forking.program(code) if code else forking.manage(*words),
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def upgrade(self, before: str = "") -> tuple[int, str, str]:
        """Run a command that upgrades first, after the code `before`."""
        code = f"import django; django.setup()\n{before}\n{UPGRADE}"
        process = self.start(code=code)
        out, error = process.communicate()
        return process.returncode, out, error

    def content(self) -> str:
        """All rows of the database as SQL."""
        with closing(sqlite3.connect(self.file)) as database:
            database.create_function("index_words", 1, str)
            rows = (
                database.execute(f'SELECT * FROM "{name}"').fetchall()
                for (name,) in database.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE"
                    " '%VIRTUAL%' AND name NOT LIKE '%search%' ORDER BY name"
                ).fetchall()
            )
            return repr(list(rows))

    def archives(self) -> list[Path]:
        return sorted(self.data.glob("before-upgrade-*"))

    def leftovers(self) -> set[str]:
        kept = {"assay.sqlite3", "migrate.lock", "secret_key", "up.lock"}
        names = {path.name for path in self.data.iterdir()} - kept
        return {name for name in names if not name.startswith("before-upgrade-")}


# A fork ends without closing its connection, which would leave the files of SQLite's log.
UPGRADE = """
import sys
from django.db import connection
from webapp.core.database import DatabaseError
from webapp.operate.upgrade import upgrade
try:
    print(upgrade())
except DatabaseError as error:
    sys.exit(str(error))
finally:
    connection.close()
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "data")


LOOK = """
import django; django.setup()
from webapp.core.database import described, missing_migrations
from webapp.papers.models import Paper
from webapp.papers.search import search
many, hits = Paper.objects.count() > 40, len(search("attention").papers) > 0
print(missing_migrations(), repr(described()), many, hits)
"""


def test_a_database_of_the_first_version_is_upgraded_and_its_archive_restored(site: Site) -> None:
    status, out, error = site.upgrade()
    assert status == 0, error
    (archive,) = site.archives()
    assert out.strip() == str(archive)
    assert archive.stat().st_mode & 0o777 == 0o600
    assert site.leftovers() == set()
    look = site.start(code=LOOK)
    assert look.communicate()[0] == "0 '' True True\n"
    content = site.content()
    restored = site.start("restore", str(archive))
    assert "Restored" in restored.communicate()[0]
    look = site.start(code=LOOK)
    assert look.communicate()[0] == "0 '' True True\n"
    assert len(site.content()) > 0.9 * len(content)
    assert site.upgrade()[1] == "None\n"


def test_migrate_is_an_upgrade_like_that_before_any_command(site: Site) -> None:
    """Docker's service and a site on several machines call it by name."""
    process = site.start("migrate", "--no-input", "--data", str(site.data))
    out, error = process.communicate()
    assert process.returncode == 0, error
    (archive,) = site.archives()
    assert f"The database was upgraded; {archive} is an archive of it before." in out
    assert site.leftovers() == set()
    assert site.start(code=LOOK).communicate()[0] == "0 '' True True\n"


def test_a_migrate_beside_a_site_that_writes_changes_nothing(site: Site) -> None:
    content = site.content()
    with closing(sqlite3.connect(site.file)) as other:
        other.execute("BEGIN IMMEDIATE")
        process = site.start("migrate", "--no-input")
        _, error = process.communicate()
    assert process.returncode == 1
    assert "Another process is using the database" in error
    assert site.content() == content


FAULTS = {
    "a faulty migration": (
        "from webapp.core import database\n"
        "def broken(*a, **k): raise KeyError(('mail', 'delivery'))\n"
        "database.call_command = broken",
        r"a migration is faulty (KeyError",
    ),
    "a full disk while it is migrated": (
        "import resource\nfrom webapp.operate import upgrade as module\n"
        "make = module._archive\n"
        "def limited():\n"
        "    made = make()\n"
        "    size = 1_000_000\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))\n"
        "    return made\n"
        "module._archive = limited\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
        "as it was: the disk cannot be written to.",
    ),
    "SQLite's word for a full disk": (
        "from django.db import OperationalError\nfrom webapp.core import database\n"
        "def full(*a, **k): raise OperationalError('database or disk is full')\n"
        "database.call_command = full",
        "as it was: the disk is full.",
    ),
    "a full disk while it is archived": (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))",
        "no archive of it could be made first",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_upgrade_leaves_the_database_as_it_was_and_says_so(site: Site, fault: str) -> None:
    before, words = FAULTS[fault]
    content = site.content()
    status, _, error = site.upgrade(before)
    last = error.strip().splitlines()[-1]
    assert status == 1
    assert words in last
    assert "as it was" in last or ". Nothing was changed." in last
    assert "restore FILE" not in last  # nothing is lost
    assert site.content() == content
    assert site.leftovers() == set()
    if archives := site.archives():
        assert str(archives[0]) in last
    assert site.upgrade()[0] == 0


def test_an_upgrade_that_is_killed_at_any_moment_is_done_or_not(site: Site) -> None:
    content, took = site.content(), 6.0
    for moment in range(8):
        process = site.start(code=f"import django; django.setup()\n{UPGRADE}")
        time.sleep(0.2 + took * moment / 8)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if site.content() != content:
            break  # it was done
    assert site.upgrade()[0] == 0
    assert site.leftovers() == set()
    assert site.start(code=LOOK).communicate()[0] == "0 '' True True\n"


def test_a_database_that_another_process_uses_is_left_alone(site: Site) -> None:
    with closing(sqlite3.connect(site.file)) as other:
        other.execute("SELECT count(*) FROM auth_user").fetchall()
        other.execute("BEGIN IMMEDIATE")
        status, _, error = site.upgrade()
    assert status == 1
    assert "Another process is using the database" in error


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE mail_delivery RENAME TO mail_letter",
        "DELETE FROM django_migrations WHERE app = 'mail' AND name > '0002'",
        "DELETE FROM django_migrations WHERE app = 'digests' AND name = '0013_packed_examples'",
    ],
    ids=["other tables", "some of mail", "all but one"],
)
def test_a_version_without_an_upgrade_is_refused_by_name(site: Site, change: str) -> None:
    with closing(sqlite3.connect(site.file)) as database:
        database.create_function("index_words", 1, str)
        database.execute(change)
        database.commit()
    content = site.content()
    status, _, error = site.upgrade()
    last = error.strip().splitlines()[-1]
    assert status == 1
    assert "before 0.1.0, which this one does not upgrade. Nothing was changed" in last
    assert site.content() == content
    assert not site.archives()


@pytest.fixture
def postgresql(postgresql_url: str) -> Iterator[str]:
    name = f"upgrade_{uuid4().hex}"
    with psycopg.connect(postgresql_url, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        yield postgresql_url.rpartition("/")[0] + "/" + name
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


OLDER = """
import django; django.setup()
from django.core.management import call_command
call_command("migrate", "papers", verbosity=0)
from webapp.papers.models import Paper
"""
COUNT = """
from django.db import connection
cursor = connection.cursor()
cursor.execute("SELECT count(*) FROM django_migrations")
print(cursor.fetchone()[0], len(connection.introspection.table_names()))
"""


def test_on_postgresql_a_failed_upgrade_is_undone(
    postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        **os.environ,
        "ASSAY_DATA": str(tmp_path),
        "DATABASE_URL": postgresql,
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
    }

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            forking.program(code), cwd=ROOT, env=environment, capture_output=True, text=True
        )

    before = run(OLDER + COUNT).stdout
    fail = """
from webapp.core import revisions
def broken(*a): raise KeyError("x")
revisions.install = broken
"""
    failed = run(f"import django; django.setup()\n{fail}{UPGRADE}")
    assert "The upgrade failed, and the database is as it was" in failed.stderr
    assert run("import django; django.setup()" + COUNT).stdout == before
    assert list(tmp_path.glob("before-upgrade-*"))
    done = run(f"import django; django.setup()\n{UPGRADE}")
    assert done.returncode == 0, done.stderr
    assert run("import django; django.setup()" + COUNT).stdout != before


def test_a_worker_that_was_switched_off_needs_a_new_key(site: Site) -> None:
    names = "SELECT name, key_version FROM runs_worker ORDER BY name"
    with closing(sqlite3.connect(site.file)) as database, database:
        database.execute("UPDATE runs_worker SET enabled = 0")
        before = dict(database.execute(names).fetchall())
    status, _, error = site.upgrade()
    assert status == 0, error
    with closing(sqlite3.connect(site.file)) as database:
        after = dict(database.execute(names).fetchall())
    assert before
    assert after == {name: version + 1 for name, version in before.items()}


def test_tags_become_lists_and_what_used_them_goes_on(site: Site) -> None:
    """A tag with the name of a shared list is not shown to that list's readers."""
    with closing(sqlite3.connect(site.file)) as database, database:
        tags = '["最好", "a b", "To read", "Kernels to read"]'
        database.execute("UPDATE library_libraryentry SET tags = ?", [tags])
        database.execute("UPDATE digests_profile SET learn_from = 'tag:a b' WHERE id = 3")
        database.execute("UPDATE mail_delivery SET profile_id = NULL, q = '-TAG:x (tag:\"a b\")'")
        shared = database.execute(
            "SELECT count(*) FROM library_readinglist_papers WHERE readinglist_id = 1"
        ).fetchone()
    status, _, error = site.upgrade()
    assert status == 0, error
    with closing(sqlite3.connect(site.file)) as database:
        lists = dict(database.execute("SELECT name, id FROM library_readinglist").fetchall())
        through = "SELECT paper_id FROM library_readinglist_papers WHERE readinglist_id = ?"
        papers = {name: database.execute(through, [pk]).fetchall() for name, pk in lists.items()}
        (learns,) = database.execute(
            "SELECT learn_from FROM digests_profile WHERE id = 3"
        ).fetchone()
        (q,) = database.execute("SELECT q FROM mail_delivery").fetchone()
    assert set(lists) == {"Kernels to read", "To read", "最好", "a b", "Kernels to read 2"}
    assert len(papers["Kernels to read"]) == shared[0]
    assert all(papers[name] for name in lists if name != "Kernels to read")
    assert (learns, q) == (f"list:{lists['a b']}", '-list:x (list:"a b")')

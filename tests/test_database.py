"""Every command finds a database of its own shape, or says why not."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.db import OperationalError, connection, transaction

import manage
from tests import databases, forking
from tests.processes import ROOT
from webapp import env


def command(data: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        forking.manage(*arguments),
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(data), **settings},
        capture_output=True,
        text=True,
    )


def loaded(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python that loads the whole site, as a check of types does."""
    settings = {"ASSAY_DATA": str(data), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    return subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory whose database is there and up to date, to spoil."""
    databases.copy_to(tmp_path / "data" / "assay.sqlite3")
    return tmp_path / "data"


def migrations(data: Path) -> set[str]:
    # Closed: an upgrade wants the file for itself.
    with closing(sqlite3.connect(data / "assay.sqlite3")) as database:
        rows = database.execute("SELECT app || '.' || name FROM django_migrations")
        return {row[0] for row in rows}


def test_an_older_database_is_brought_up_to_date(data: Path) -> None:
    complete = migrations(data)
    assert command(data, "migrate", "readers", "zero").returncode == 0
    assert "readers.0001_squashed_0002_preference" not in migrations(data)
    assert command(data, "sign_in_link").returncode == 0
    assert migrations(data) == complete


@pytest.mark.django_db(transaction=True)
def test_a_transaction_of_sqlite_is_the_only_writer_from_its_beginning() -> None:
    """Else one that reads before it writes fails where another wrote meanwhile."""
    other = connection.copy()
    other.settings_dict["OPTIONS"]["timeout"] = 0
    locked = pytest.raises(OperationalError, match="locked")
    with transaction.atomic(), other.cursor() as cursor, locked:
        cursor.execute("BEGIN IMMEDIATE")
    other.close()


def test_the_data_option_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command(tmp_path / "none", "--data", str(tmp_path / "a"), "diffsettings")
    assert done.returncode == 0
    assert f"DATA_DIR = PosixPath('{tmp_path / 'a'}')" in done.stdout

    monkeypatch.setenv("ASSAY_DATA", "none")
    written = ["diffsettings", f"--data={tmp_path / 'c'}"]
    assert manage.command_line(written) == ("diffsettings", [])
    assert os.environ["ASSAY_DATA"] == str(tmp_path / "c")


LOADED = """
import django, os, sys
django.setup()
import webapp.urls, webapp.core.tasks, workers.site
from django.conf import settings
if "sign" in sys.argv:
    from django.core.signing import Signer
    Signer().sign("x")
"""


def test_loading_the_site_writes_nothing_and_closes_nothing(tmp_path: Path) -> None:
    """Nor do commands that only look: operate/test_reading_commands.py."""

    def look(data: Path) -> None:
        done = loaded(data)
        assert done.returncode == 0, done.stderr

    look(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    others = tmp_path / "others"
    others.mkdir()
    (others / "file").touch()
    (others / "file").chmod(0o644)
    others.chmod(0o755)
    look(others)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (others, *others.iterdir())}
    assert modes == {"others": 0o755, "file": 0o644}


def test_a_secret_is_made_when_one_is_needed(tmp_path: Path) -> None:
    done = loaded(tmp_path / "data", "sign")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["secret_key"]
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "secret_key").stat().st_mode & 0o777 == 0o600


def test_a_newer_database_is_refused_and_left_alone(data: Path) -> None:
    with sqlite3.connect(data / "assay.sqlite3") as database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) "
            "VALUES ('readers', '0099_of_tomorrow', '2030-01-01')"
        )
    done = command(data, "sign_in_link")
    assert done.returncode == 1
    assert "newer Assay (it has readers.0099_of_tomorrow)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "steps",
    [("0001_initial", "0002_preference"), ("0001_initial", "0002_preference", "0001_tables")],
    ids=["two steps", "one that replaces them"],
)
def test_a_site_is_updated_whichever_steps_made_its_readers(
    data: Path, steps: tuple[str, ...]
) -> None:
    with sqlite3.connect(data / "assay.sqlite3") as database:
        database.execute("DELETE FROM django_migrations WHERE app = 'readers'")
        database.executemany(
            "INSERT INTO django_migrations (app, name, applied) "
            "VALUES ('readers', ?, '2026-11-23')",
            [(name,) for name in steps],
        )
    done = command(data, "sign_in_link")
    assert done.returncode == 0, done.stderr


def test_first_commands_at_once_make_one_database_that_is_closed_to_others(
    data: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    (new / "folder").mkdir(parents=True)
    (new / "older").touch()
    for path, mode in ((new, 0o755), (new / "folder", 0o755), (new / "older", 0o644)):
        path.chmod(mode)  # whatever this process's own mask
    processes = [
        subprocess.Popen(
            [sys.executable, "manage.py", "sign_in_link"],
            cwd=ROOT,
            env={**os.environ, "ASSAY_DATA": str(new)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert migrations(new) == migrations(data)

    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (new, *new.iterdir())}
    # What was there before stays as it is: it may be shared on purpose.
    before = {name: modes.pop(name) for name in ("new", "folder", "older")}
    assert before == {"new": "0o755", "folder": "0o755", "older": "0o644"}
    assert "assay.sqlite3" in modes
    assert set(modes.values()) <= {"0o600", "0o700"}  # files, folders


def test_a_directory_that_is_made_is_closed_to_others(tmp_path: Path) -> None:
    assert command(tmp_path / "new", "sign_in_link").returncode == 0
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"DATABASE_URL": "postgresql://u@127.0.0.1:9/db"}, "The database db cannot be used"),
        ({"DATABASE_URL": "mysql://u:secret@here/db"}, "DATABASE_URL='mysql://u:***@here/db'"),
        ({"ASSAY_DEBUG": "perhaps"}, "ASSAY_DEBUG='perhaps': Input should be a valid boolean"),
        ({"ASSAY_DATA": "/proc/nowhere"}, "ASSAY_DATA='/proc/nowhere'"),
    ],
)
def test_a_command_that_cannot_work_says_why(
    tmp_path: Path, given: dict[str, str], words: str
) -> None:
    done = command(tmp_path, "sign_in_link", **given)
    assert done.returncode == 1
    assert words in done.stderr
    assert "secret" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ASSAY_LEASE", "2", "ASSAY_LEASE='2': Input should be greater than or equal to 3"),
        ("ASSAY_ARXIV_RSS_URL", "ftp://x", "'ftp://x': write an http:// or https:// address"),
        ("DATABASE_URL", "postgresql://u:secret/word@here/db", "DATABASE_URL='…': no address"),
        ("CELERY_BROKER_URL", "redis://:[secret]x@here/0", "CELERY_BROKER_URL='…': no address"),
        ("ASSAY_SMTP_URL", "smtp://u:secret/word@here", "ASSAY_SMTP_URL='…': no address"),
        ("ASSAY_SMTP_URL", "mail.example.org", "write smtp+tls://user:password@host:587"),
        ("OPENAI_BASE_URL", "http://u:secret/word@here", "no address"),
        ("ASSAY_LOG_LEVEL", "loud", "ASSAY_LOG_LEVEL='loud': Input should be 'DEBUG', 'INFO'"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(env.SettingError, match=re.escape(words)) as refused:
        env.read.__wrapped__()
    assert "secret" not in str(refused.value)


def test_it_migrates_postgresql(tmp_path: Path, postgresql_url: str) -> None:
    done = command(tmp_path, "sign_in_link", DATABASE_URL=postgresql_url)
    assert done.returncode == 0, done.stderr
    assert "/sign-in/" in done.stdout

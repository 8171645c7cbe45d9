"""A database that is lost, damaged or unfit is said in words, and never replaced in silence."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from psycopg import connect
from psycopg.conninfo import conninfo_to_dict

from tests import databases, machine
from tests.processes import ROOT
from tests.servers import stores
from webapp.env import database_from


def manage(data: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments, "--data", str(data)],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": "", **settings},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("left", [b"", b"no database " * 500], ids=["0 bytes", "other bytes"])
def test_a_lost_or_damaged_file_names_restore_and_stays(tmp_path: Path, left: bytes) -> None:
    file = tmp_path / "assay.sqlite3"
    file.write_bytes(left)
    for command in (["up", "--no-ml", "--port", "0"], ["digest"], ["doctor"]):
        ended = manage(tmp_path, *command)
        assert ended.returncode
        assert "manage.py restore FILE" in ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr
        assert file.read_bytes() == left


def test_damage_inside_a_file_names_restore_and_stays(
    tmp_path: Path, django_db_setup: None
) -> None:
    """Its tables can be listed, so that a site would start and fail later."""
    file = tmp_path / "assay.sqlite3"
    databases.copy_to(file)
    with closing(sqlite3.connect(file)) as opened:
        [(size,)] = opened.execute("PRAGMA page_size")
        [(page,)] = opened.execute("SELECT rootpage FROM sqlite_master WHERE name = 'papers_paper'")
    left = file.read_bytes()
    left = left[: (page - 1) * size] + b"\xff" * size + left[page * size :]
    file.write_bytes(left)
    for command in (["up", "--no-ml", "--port", "0"], ["doctor"]):
        ended = manage(tmp_path, *command)
        said = ended.stdout + ended.stderr
        assert ended.returncode
        assert "is damaged" in said
        assert "manage.py restore FILE" in said
        assert "Traceback" not in said
        assert file.read_bytes() == left


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", "a b", "\u00e4"])
def test_a_directory_of_any_name_has_its_own_database(tmp_path: Path, name: str) -> None:
    ended = manage(tmp_path / name, "migrate")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / name / "assay.sqlite3").stat().st_size
    assert not [one for one in tmp_path.iterdir() if one.name != name]


def test_options_of_a_database_address_are_kept() -> None:
    found = database_from("postgresql://u@h/n?sslmode=require&connect_timeout=3")
    assert found["OPTIONS"] == {"sslmode": "require", "connect_timeout": "3"}
    assert database_from("postgresql://u@h/n")["OPTIONS"] == {}


def test_a_postgresql_of_another_encoding_is_refused_in_words(tmp_path: Path) -> None:
    initdb = machine.POSTGRESQL.find() or pytest.skip(machine.POSTGRESQL.why_not)
    with stores.postgresql(Path(initdb).parent) as url:
        with connect(url, autocommit=True) as opened:
            opened.execute(
                "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0"
                " LC_COLLATE 'C' LC_CTYPE 'C'"
            )
        other = url.replace(f"/{conninfo_to_dict(url)['dbname']}", "/ascii")
        ended = manage(tmp_path, "up", "--no-ml", "--port", "0", DATABASE_URL=other)
        assert ended.returncode
        assert "has the encoding SQL_ASCII" in ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr

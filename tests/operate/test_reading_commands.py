"""Commands that answer a question write nothing, and change no modes of what is there."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from django.core.management import get_commands

from tests import databases, forking
from tests.processes import ROOT

# What each is asked. The first group may find no site; the second reads one that is up to date.
OF_ANY_SITE = {
    "check": [],
    "diffsettings": [],
    "doctor": [],
    "findstatic": ["none.css"],
    "help": [],
    "methods": ["list"],
    "showmigrations": ["health"],
    "sqlmigrate": ["papers", "0001"],
    "translations": [],
    "version": [],
}
OF_A_SITE = {
    "corrections": [],
    "digest": [],
    "dumpdata": ["papers.listing"],
    "mcp": ["--help"],
    "score": ["--help"],
    "up": ["--help"],
    "worker_key": ["--help"],
}
# What they write is what they are for; their help is for reading.
WRITING = {
    *("backup", "fetch", "import_profile", "import_results"),
    *("extract_claims", "link_papers", "restore", "sign_in_link", "summarise", "tidy"),
}
MAY_FAIL = {"digest", "doctor", "findstatic"}  # it finds nothing, or has a problem to tell
# The index of SQLite's log, in memory that its readers share: its bytes say who reads.
SHARED_MEMORY = "assay.sqlite3-shm"


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """The mode and contents of everything in a folder, and of the folder."""
    if not folder.exists():
        return {}
    found = {".": (folder.stat().st_mode, "")}
    for path in sorted(folder.rglob("*")):
        is_kept = path.is_file() and path.name != SHARED_MEMORY
        content = sha256(path.read_bytes()).hexdigest() if is_kept else ""
        found[str(path.relative_to(folder))] = (path.stat().st_mode, content)
    return found


def ask(data: Path, *lines: list[str]) -> str:
    """Run commands one after another; return their answers."""
    environment = {"ASSAY_DATA": str(data), "DATABASE_URL": ""}
    ended = subprocess.run(
        forking.manage_each(lines),
        cwd=ROOT,
        env={**os.environ, **environment, "DJANGO_SETTINGS_MODULE": "webapp.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(answers) == len(lines), ended.stderr
    for (name, *_), (status, said) in zip(lines, answers, strict=True):
        assert "Traceback" not in said, said
        assert status == 0 or name in MAY_FAIL, (name, said)
    return "".join(said for _, said in answers)


def changed_by(data: Path, commands: dict[str, list[str]]) -> object:
    """The files and rows that any of the commands changed."""
    before = state(data)
    ask(data, *([name, *arguments] for name, arguments in commands.items()))
    return state(data).items() ^ before.items()


@pytest.fixture
def data(tmp_path: Path, django_db_setup: None) -> Path:
    """A site that others may look into, with a file that is not Assay's."""
    folder = tmp_path / "data"
    folder.mkdir()
    databases.copy_to(folder / "assay.sqlite3")
    (folder / "notes.txt").write_text("mine")
    for path in folder.iterdir():
        path.chmod(0o644)
    folder.chmod(0o1777)
    return folder


def test_every_command_is_for_reading_or_for_writing() -> None:
    """A new command fails here until it is named above."""
    reading = OF_ANY_SITE.keys() | OF_A_SITE.keys()
    ours = {name for name, app in get_commands().items() if app.startswith("webapp.")}
    assert ours <= reading | WRITING
    assert not reading & WRITING


@pytest.mark.slow
def test_reading_a_site_changes_nothing(data: Path) -> None:
    helped = {name: ["--help"] for name in sorted(WRITING)}
    ask(data, ["digest"])  # makes the site's own profile, which a new site lacks
    assert not changed_by(data, OF_ANY_SITE | OF_A_SITE | helped)


def test_a_site_of_an_older_assay_is_not_migrated(data: Path) -> None:
    ask(data, ["migrate", "health", "zero", "--verbosity", "0"])
    before = state(data)
    answer = ask(data, ["doctor"], ["showmigrations", "health"])
    missing = answer.count("[ ] 0")
    assert missing
    assert "[X]" not in answer
    assert f"lacks {missing} migration" in answer
    assert "No day has come" not in answer  # asked of tables that are not these
    assert state(data) == before


def test_what_a_killed_site_left_in_its_log_is_read_and_stays(data: Path) -> None:
    """Whoever closes such a file last moves the log into it, unless it only reads."""
    killed = (
        "import os, sqlite3, sys\n"
        "file = sqlite3.connect(sys.argv[1])\n"
        "file.execute('PRAGMA journal_mode=WAL')\n"
        "file.execute(\"DELETE FROM django_migrations WHERE app = 'health'\")\n"
        "file.commit()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run(["python3", "-c", killed, str(data / "assay.sqlite3")], check=False)
    assert (data / "assay.sqlite3-wal").stat().st_size
    before = state(data)
    assert re.search(r"lacks \d+ migration", ask(data, ["doctor"]))  # it stands in the log alone
    assert state(data) == before
    with sqlite3.connect(data / "assay.sqlite3") as left:
        assert left.execute("PRAGMA quick_check").fetchall() == [("ok",)]


def test_where_there_is_no_site_none_is_made(tmp_path: Path) -> None:
    folder, absent = tmp_path / "a#b?c%d", tmp_path / "absent"
    folder.mkdir()
    (folder / "file").touch()
    (folder / "file").chmod(0o644)
    folder.chmod(0o1777)
    for data in (folder, absent):
        before = state(data)
        lines = OF_ANY_SITE | {"up": ["--help"], "fetch": ["--help"]}
        said = ask(data, *([name, *arguments] for name, arguments in lines.items()))
        assert f"There is no site in {data} yet" in said
        assert "[ ] 0001_" in said
        assert state(data) == before
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]

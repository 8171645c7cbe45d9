"""Findings and advice of `manage.py doctor`."""

from __future__ import annotations

import json
import os
import re
import subprocess
from datetime import date, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from tests import forking
from tests.processes import ROOT
from webapp.operate import doctor
from webapp.operate.doctor import Level, examine
from webapp.papers.models import Listing, Paper
from webapp.runs.models import Worker
from webapp.summaries.models import Summary

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def data(settings: Any, tmp_path: Path) -> Path:
    """A data directory that nobody else reads."""
    tmp_path.chmod(0o700)
    settings.DATA_DIR = tmp_path
    return tmp_path


def found(level: Level) -> str:
    return "\n".join(f"{f.what} → {f.todo}" for f in examine() if f.level == level)


def listing(day: date, state: str, reason: str = "") -> None:
    now = timezone.now()
    Listing.objects.create(
        category="cs.CL", date=day, state=state, source="rss", reason=reason,
        polled_at=now, changed_at=now,
    )  # fmt: skip


def summary(state: str, reason: str = "") -> None:
    number = Paper.objects.count()
    paper = Paper.objects.create(
        arxiv_id=f"2601.{number:05d}", title="T", abstract="A", title_html="", abstract_html="",
        authors=[], categories=[],
    )  # fmt: skip
    Summary.objects.create(
        paper=paper, version=1, prompt_version="1", model="m", language="en", state=state,
        reason=reason,
    )  # fmt: skip


def test_a_new_installation() -> None:
    assert "Assay is not running → python3 manage.py up" in found("note")
    assert "No model summarises" in found("note")
    assert "No worker measures runs now" in found("note")
    assert "No day has come from arXiv yet" in found("problem")


@pytest.mark.parametrize(("free", "level"), [(0.4, "problem"), (4.9, "note"), (5.1, "good")])
def test_space(monkeypatch: pytest.MonkeyPatch, free: float, level: Level) -> None:
    # The one thing here that a test cannot have for real without a file system of its own.
    usage = type("usage", (), {"free": free * 2**30})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    assert f"{free:.1f} GiB are free" in found(level)


def test_what_others_may_read(data: Path, settings: Any) -> None:
    settings.CONNECTIONS_FILE = data / "elsewhere" / "connections.json"
    settings.CONNECTIONS_FILE.parent.mkdir()
    closed = {data: 0o700, data / "secret_key": 0o600, settings.CONNECTIONS_FILE: 0o600}
    assert "Other users" not in found("problem")  # of files that are not there
    for path in list(closed)[1:]:
        path.write_text("{}")
        path.chmod(0o600)
    assert "Other users" not in found("problem")
    for path, mode in closed.items():
        path.chmod(mode | 0o040)
        assert f"look into {path} → chmod go= {path}" in found("problem")
        path.chmod(mode)


def test_the_intake() -> None:
    today = timezone.now().date()
    listing(today - timedelta(days=3), "complete")
    assert "The latest day from arXiv" in found("good")
    Listing.objects.update(date=today - timedelta(days=9))
    listing(today, "failed", "arXiv did not answer in time")
    assert "The last failure: arXiv did not answer in time" in found("problem")


def test_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "small")
    summary("done")
    assert "small summarises" in found("good")
    summary("failed", "the server wants a key")
    assert "failed: the server wants a key" in found("problem")
    summary("done")
    assert "small summarises" in found("good")


def test_benchmarks(data: Path) -> None:
    told = {"state": "failed", "reason": "no space left"}
    (data / "ml-install.json").write_text(json.dumps(told))
    assert "could not be installed: no space left" in found("problem")
    Worker.objects.create(name="lab", device_name="H200", last_seen=timezone.now())
    assert "Runs are measured by lab (H200)" in found("good")


@pytest.mark.parametrize(
    ("address", "https", "told"),
    [
        ("http://assay.example", True, "Write https:// in ASSAY_BASE_URL"),
        ("https://assay.example:9100", False, "Remove ASSAY_HTTPS"),
        ("https://assay.example:9100", True, ""),
        ("http://assay.example", False, ""),
    ],
)
def test_the_address(settings: Any, address: str, https: bool, told: str) -> None:
    settings.BASE_URL, settings.HTTPS = address, https
    problems = found("problem")
    assert told in problems
    assert ("ASSAY_BASE_URL" in problems) == bool(told)


def test_clocks_more_than_a_day_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "connection", SimpleNamespace(vendor="postgresql"))
    yesterday = timezone.now() - timedelta(days=1, seconds=2)
    monkeypatch.setattr(doctor, "rows", lambda _: [(yesterday,)])
    (finding,) = doctor._database()
    assert re.search(r"are 864\d\d s apart", finding.what)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", stdout=out)
    assert ended.value.code == 1
    assert "  PROBLEM No day has come from arXiv yet\n          → " in out.getvalue()


def test_a_database_that_is_away_and_one_that_is_damaged(tmp_path: Path) -> None:
    def run(**variables: str) -> str:
        environment = {**os.environ, "ASSAY_DATA": str(tmp_path), **variables}
        command = forking.manage("doctor")
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stdout

    away = run(DATABASE_URL="postgresql://nobody:secret-word@127.0.0.1:1/none")
    assert "PROBLEM" in away
    assert "cannot be used" in away
    assert "secret-word" not in away
    damaged = tmp_path / "damaged.sqlite3"
    damaged.write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    assert "PROBLEM" in run(DATABASE_URL=f"sqlite:///{damaged}")

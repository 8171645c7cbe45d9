"""Result files as published runs: whole or not at all, once, and named where they are bad."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from methods.protocol import KINDS, Cancelled, CheckResult, Line, Log, Result, Series, Strict
from tests.processes import ROOT
from tests.runs.saying import check, result, series, started
from webapp.runs.models import Check, Environment, Event, Run, State
from webapp.runs.results import read

pytestmark = pytest.mark.django_db
GOOD = (started(), check(), Log(offset=0, text="hello\n"), series(), result())
MISSED = CheckResult(name="clock", measured=2.0, bound=1.0, relation="<=", passed=False)


def write(path: Path, *bodies: Strict) -> Path:
    lines = [Line(seq=seq, kind=KINDS[type(b)], body=b).dump() for seq, b in enumerate(bodies)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def publish(*paths: Path) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("import_results", *paths, stdout=out, stderr=err)
    except CommandError as error:
        err.write(f"{error}\n")
    return out.getvalue(), err.getvalue()


def test_what_the_command_line_writes_is_published(tmp_path: Path, client: Client) -> None:
    """The real command, its file, and the page that shows it."""
    file = tmp_path / "sleep.json"
    fixture = str(ROOT / "tests" / "methods_fixture")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "methods",
            "run",
            "trial.sleep",
            "--preset",
            "smoke",
            "--set",
            "seconds=0.05",
            "--json",
            str(file),
            "--device",
            "cpu",
        ],
        cwd=ROOT,
        env={**os.environ, "ASSAY_METHODS_PATH": fixture},
        check=True,
        capture_output=True,
    )
    out, err = publish(tmp_path)
    assert (out, err) == ("Results published: 1 new, 0 already known, 0 unreadable.\n", "")
    run = Run.objects.get()
    assert (run.state, run.imported, run.params["seconds"]) == (State.SUCCEEDED, True, 0.05)
    assert run.reader is None
    assert run.charged_seconds == 0
    html = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Published result" in html
    assert "assay-chart" in html
    assert run.environment
    assert run.environment.hardware in html


def test_twice_is_once(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", *GOOD)
    write(tmp_path / "same.json", *GOOD)
    assert "1 new, 1 already known" in publish(tmp_path)[0]
    file.rename(tmp_path / "renamed.json")
    assert "0 new, 2 already known" in publish(tmp_path)[0]
    assert Run.objects.count() == 1


BAD = {
    "empty": ((), "line 1 is not the event 'started'"),
    "headless": (GOOD[1:], "line 1 is not the event 'started'"),
    "endless": (GOOD[:-1], "the last line is not the event 'result'"),
    "only-begun": (GOOD[:1], "the last line is not the event 'result'"),
    "cancelled": ((*GOOD[:-1], Cancelled()), "the run did not succeed"),
    "double": ((*GOOD, *GOOD), "more than one run"),
    "missed": ((GOOD[0], MISSED, *GOOD[3:]), "the check clock missed its bound"),
    "unnamed": ((*GOOD[:3], series("other"), GOOD[4]), "its series are not those"),
    "uncounted": ((GOOD[0], *GOOD[2:]), "its checks are not those"),
    "unknown": ((started().model_copy(update={"method": "nothing"}), *GOOD[1:]), "no method is"),
    "future": ((started().model_copy(update={"at": 3.98e9}), *GOOD[1:]), "in the future"),
    "newer": ((started().model_copy(update={"version": 9}), *GOOD[1:]), "it is of version 9"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    bodies, reason = BAD[name]
    write(tmp_path / f"{name}.json", *bodies)
    write(tmp_path / "good.json", *GOOD)
    out, err = publish(tmp_path)
    assert out.startswith("Results published: 1 new")
    assert f"{name}.json: " in err
    assert reason in err
    assert Run.objects.count() == 1
    assert Environment.objects.count() == Check.objects.count() == Event.objects.count() == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfe", "line 1: "),
        (b'{"v": 1}\n', "line 1: "),
        (b"[" * 100_000, "line 1: "),
        (b'{"v":1,"seq":0,"kind":"started","body":{"at":NaN}}', "line 1: "),
    ],
)
def test_garbage_is_a_bad_file(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "garbage.json").write_bytes(content)
    _, err = publish(tmp_path)
    assert reason in err
    assert not Run.objects.exists()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "No such file" in publish(tmp_path / "nothing.json")[1]


def test_what_fails_while_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    file = write(tmp_path / "a.json", *GOOD)
    with monkeypatch.context() as patch:
        patch.setattr("webapp.runs.record.insert", full)
        assert "No space left" in publish(file)[1]
    assert not Run.objects.exists()
    assert not Environment.objects.exists()
    assert "1 new" in publish(file)[0]


def test_every_committed_result_is_published_with_its_machine() -> None:
    files = list((ROOT / "benchmarks" / "results").rglob("*.jsonl"))
    assert files
    assert publish() == (
        f"Results published: {len(files)} new, 0 already known, 0 unreadable.\n",
        "",
    )
    for run in Run.objects.all():
        assert run.environment.hardware
        assert run.series.exists()


def test_an_empty_folder_is_no_error(tmp_path: Path) -> None:
    assert publish(tmp_path) == ("Results published: 0 new, 0 already known, 0 unreadable.\n", "")


def test_a_file_is_read_into_its_events() -> None:
    text = "\n".join(
        Line(seq=0, kind=KINDS[type(body)], body=body).dump() for body in GOOD
    ).encode()
    _, middle, last = read(text)
    assert isinstance(middle[2], Series)
    assert isinstance(last, Result)


def test_of_two_checks_with_one_label_the_later_stands(tmp_path: Path) -> None:
    """Also on PostgreSQL, which refuses to write one row twice in a statement."""
    last = GOOD[-1].model_copy(update={"checks": 2})
    again = GOOD[1].model_copy(update={"measured": 0.25})
    assert "1 new" in publish(write(tmp_path / "a.json", *GOOD[:2], again, *GOOD[2:-1], last))[0]
    assert Check.objects.get().data["measured"] == 0.25

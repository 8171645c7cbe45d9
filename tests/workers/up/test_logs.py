"""Logs of the children of `up`: in small files, shown on request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.up import logs
from workers.up.logs import LogFile, worth_reading
from workers.up.supervisor import Child, Supervisor


def test_a_file_is_put_aside_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LOG_BYTES", 1000)
    file = LogFile(tmp_path / "site.log")
    lines = [f"{number:06d}" for number in range(1000)]
    for line in lines:
        file.write(line)
    file.close()
    now, before = ((tmp_path / name).read_text() for name in ("site.log", "site.log.1"))
    assert max(len(now), len(before)) <= 1000
    assert "".join(f"{line}\n" for line in lines).endswith(before + now)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_disk_that_takes_nothing_costs_lines_and_no_process(tmp_path: Path) -> None:
    full = tmp_path / "log"
    full.mkdir()
    (full / "talks.log").symlink_to("/dev/full")  # whoever writes there is told ENOSPC
    said: list[str] = []

    def talk() -> None:
        os.write(1, b"WARNING talks: nobody keeps this\n")

    with Supervisor(tmp_path, full, lambda _, words: said.append(words)) as supervisor:
        supervisor.start(Child("talks", talk, once=True))
        while supervisor._running:
            supervisor.pump(1)
    assert said == ["WARNING talks: nobody keeps this"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("2026-11-22 10:00:00,000 INFO assay.news: A day came", "A day came"),
        ("2026-11-22 10:00:00,000 INFO webapp.papers: asked", None),
        ("[2026-11-22 10:00:00,000: ERROR/MainProcess] It broke", "It broke"),
        ("[2026-11-22 10:00:00 +0000] [17] [WARNING] Slow", "Slow"),
        ("[2026-11-22 10:00:00 +0000] [17] [INFO] Booting worker", None),
        ("no line of a log", None),
    ],
)
def test_what_is_worth_reading(line: str, words: str | None) -> None:
    assert worth_reading(line) == words

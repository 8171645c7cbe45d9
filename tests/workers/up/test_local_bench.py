"""`up` brings a worker that measures, once what the methods need is installed."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

import bootstrap
from tests.processes import House, up, wait_for


def heard(house: House) -> tuple[object, ...] | None:
    with sqlite3.connect(house.data / "assay.sqlite3") as database:
        seen = "SELECT name, device FROM runs_worker WHERE last_seen IS NOT NULL"
        row: tuple[object, ...] | None = database.execute(seen).fetchone()
        return row


@pytest.mark.slow
def test_a_worker_of_this_machine_is_heard_of(tmp_path: Path) -> None:
    if any(bootstrap.missing(group, sys.path) for group in ("web", "ml")):
        pytest.skip("needs the methods' requirements: python3 manage.py methods list")
    with up(tmp_path, ml=True) as house:
        assert house.address  # the database is made by then
        assert wait_for(lambda: heard(house), 90, "a heartbeat") == ("local", "cpu")
        assert house.stop() < 8
        assert not house.children("workers.bench")

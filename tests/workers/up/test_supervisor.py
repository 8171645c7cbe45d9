"""The delay before the supervisor starts a child again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workers.up import supervisor as module
from workers.up.supervisor import STEADY_SECONDS, Child, Supervisor


def test_a_child_that_keeps_dying_is_started_again_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = 1_000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: died))
    supervisor = Supervisor(tmp_path, tmp_path, lambda *_: None)
    child = Child("web", print)

    def wait_after(lived: float) -> float:
        running: Any = SimpleNamespace(
            child=child, process=SimpleNamespace(exitcode=1), started=died - lived
        )
        supervisor._after_death(running)
        return supervisor._waiting["web"][0] - died

    assert [wait_after(0) for _ in range(5)] == [1, 2, 4, 5, 5]
    assert {wait_after(0) for _ in range(1_100)} == {5}
    assert wait_after(STEADY_SECONDS + 1) == 1
    assert wait_after(0) == 2

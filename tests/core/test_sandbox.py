"""Foreign text is read within limits; what exceeds them costs the text and nothing else."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.processes import wait_for
from webapp.core import sandbox
from webapp.core.sandbox import UnreadableError


def spin(seconds: float) -> str:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "done"


def fill(megabytes: int) -> int:
    return len(bytearray(megabytes << 20))


def refuse(reason: str) -> None:
    raise UnreadableError(reason)


def break_down() -> None:
    {}["delivery"]


def nest(depth: int) -> int:
    return nest(depth + 1)


def own_pid() -> int:
    return os.getpid()


def test_a_function_runs_in_a_child_that_serves_the_next_one_too() -> None:
    child = sandbox.run(own_pid)
    assert child != os.getpid()
    assert sandbox.run(own_pid) == child


def test_processor_time_is_limited_for_each_text() -> None:
    assert [sandbox.run(spin, 0.7, seconds=2) for _ in range(4)] == ["done"] * 4
    with pytest.raises(UnreadableError, match="could not be read within 1 s"):
        sandbox.run(spin, 60.0, seconds=1)
    assert sandbox.run(spin, 0.0) == "done"


def test_memory_is_limited() -> None:
    with pytest.raises(UnreadableError, match="more than 1024 MB of memory"):
        sandbox.run(fill, 1_500)
    assert sandbox.run(fill, 100) == 100 << 20


def test_errors_of_a_reader_are_those_of_the_text(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnreadableError, match=r"^the feed is cut off$"):
        sandbox.run(refuse, "the feed is cut off")
    assert not caplog.records
    with pytest.raises(UnreadableError, match="its reader failed \\(KeyError\\)"):
        sandbox.run(break_down)
    assert "KeyError: 'delivery'" in caplog.text
    with pytest.raises(UnreadableError, match="nested too deeply"):
        sandbox.run(nest, 0)


def test_a_killed_child_is_replaced() -> None:
    os.kill(sandbox.run(own_pid), 9)
    wait_for(lambda: all(child.process.poll() for child in sandbox._idle), "its end")
    assert sandbox.run(spin, 0.0) == "done"


def test_an_idle_child_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "IDLE_SECONDS", 0.1)
    child = sandbox.run(own_pid)
    wait_for(lambda: not Path(f"/proc/{child}").exists(), "its end")


def test_a_child_whose_starting_thread_has_ended_is_replaced() -> None:
    for child in list(sandbox._idle):
        child.expire()
    thread = threading.Thread(target=sandbox.run, args=(own_pid,))
    thread.start()
    thread.join()
    assert [sandbox.run(spin, 0.0) for _ in range(3)] == ["done"] * 3

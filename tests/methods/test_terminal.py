"""Numbers, durations, tables and bars as people read them."""

import os
import pty
from typing import Self

import pytest

from assay_common.quantities import duration, number
from assay_common.terminal import progress_bar, table
from methods.charts import check_value, interval
from methods.measure.statistics import exact_point, over_seeds
from methods.protocol import Progress
from methods.terminal import ProgressBar


class Terminal:
    """A real one, in the place of standard error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._leader, follower = pty.openpty()
        self._stream = os.fdopen(follower, "w")
        monkeypatch.setattr("sys.stderr", self._stream)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")

    def read_until(self, wanted: bytes) -> bytes:
        seen = b""
        while wanted not in seen:
            seen += os.read(self._leader, 4096)
        return seen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()
        os.close(self._leader)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"),
        (4096.0, "4096"),
        (12.3456, "12.35"),
        (0.0123456, "0.01235"),
        (123456.7, "123457"),
        (1.5e-7, "1.500e-07"),
        (2.5e9, "2.500e+09"),
        (-3.14159, "-3.142"),
    ],
)
def test_numbers_have_four_digits(value: float, said: str) -> None:
    assert number(value) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations_are_said_in_two_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_one_sample_is_not_exact() -> None:
    """Only what was counted is; a sample alone says that it has no interval."""
    counted = exact_point("ours", 1.0, 4096.0, direction="lower")
    alone = over_seeds("ours", 1.0, [3.4])
    equal = over_seeds("ours", 1.0, [2.0] * 3)
    some = over_seeds("ours", 1.0, [1.0, 2.0, 3.0])
    said = [interval(one) for one in (counted, alone, equal)]
    assert said == ["exact", "no interval", "2"]
    assert interval(some) == f"{number(some.low)} – {number(some.high)}"


def test_check_values_are_words_where_they_are_not_numbers() -> None:
    assert [check_value(v) for v in (None, True, False, 0.0, 3.1e-7)] == [
        "not finite",
        "yes",
        "no",
        "0",
        "3.10e-07",
    ]


def test_a_table_is_aligned_whole_and_takes_no_text_for_markup() -> None:
    reason = "[bold]no[/bold] " + "x" * 300
    rows = [["cs.CL", "120", ""], ["漢字", "7", reason]]
    assert table(["category", "new", "why"], rows, right=["new"]).splitlines() == [
        "category  new  why",
        "cs.CL     120",
        f"漢字        7  {reason}",
    ]


def test_a_bar_is_for_terminals_alone(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as bar:
        bar.add_task("[cs.CL] today", total=2)
    own = ProgressBar()
    own.show(Progress(fraction=0.5, message="half", elapsed=1.0))
    own.clear()
    assert capfd.readouterr() == ("", "")


def test_a_bar_says_the_step_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal, progress_bar() as bar:
        bar.add_task("[cs.CL] today", total=2, completed=1)
        bar.refresh()
        seen = terminal.read_until(b"today")
    assert b"1/2" in seen
    assert b"[cs.CL] today" in seen


def test_a_run_says_how_far_it_is_and_how_long_it_will_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Terminal(monkeypatch) as terminal:
        bar = ProgressBar()
        bar.show(Progress(fraction=0.25, message="[dense] 4096", elapsed=10.0, left=30.0))
        seen = terminal.read_until(b"4096")
        bar.clear()
    assert b" 25%" in seen
    assert b"30 s left" in seen
    assert b"[dense] 4096" in seen

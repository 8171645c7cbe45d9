"""Numbers, durations and tables as people read them."""

import pytest

from methods.measure.statistics import exact_point, over_seeds
from methods.terminal import check_value, duration, interval, number, table


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


def test_columns_are_aligned_by_what_is_seen() -> None:
    text = table(("名", "n"), [("a", "1"), ("bcd", "100")], right=(1,))
    assert text.splitlines() == ["名     n", "───  ───", "a      1", "bcd  100"]

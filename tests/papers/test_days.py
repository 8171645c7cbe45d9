from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.papers.days import (
    announcement_day,
    batch_days,
    eastern_date,
    has_batch,
    last_batch_day,
    next_batch_day,
    submission_window,
)


@pytest.mark.parametrize(
    ("day", "since", "until"),
    [
        # arXiv's table of announcements; 14:00 Eastern is 19:00 UTC in winter, 18:00 in summer.
        (date(2026, 3, 2), "2026-02-26T19:00Z", "2026-02-27T19:00Z"),  # Monday
        (date(2026, 3, 3), "2026-02-27T19:00Z", "2026-03-02T19:00Z"),  # Tuesday
        (date(2026, 3, 4), "2026-03-02T19:00Z", "2026-03-03T19:00Z"),
        (date(2026, 3, 6), "2026-03-04T19:00Z", "2026-03-05T19:00Z"),  # Friday
        (date(2026, 3, 10), "2026-03-06T19:00Z", "2026-03-09T18:00Z"),  # clocks changed
    ],
)
def test_a_batch_holds_what_was_submitted_between_two_closings(
    day: date, since: str, until: str
) -> None:
    window = (datetime.fromisoformat(since), datetime.fromisoformat(until))
    assert submission_window(day) == window


@given(st.dates(date(1992, 1, 1), date(2100, 1, 1)))
def test_windows_follow_one_another_without_gaps(day: date) -> None:
    day = last_batch_day(day)
    assert submission_window(next_batch_day(day))[0] == submission_window(day)[1]


@given(st.integers(694_224_000, 4_102_444_800))
def test_a_submission_is_in_the_window_of_its_day(seconds: int) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)  # from 1992 to 2100
    day = announcement_day(moment)
    since, until = submission_window(day)
    assert has_batch(day)
    assert since <= moment < until


def test_days_are_eastern() -> None:
    assert eastern_date(datetime(2026, 3, 4, 4, 59, tzinfo=UTC)) == date(2026, 3, 3)
    assert eastern_date(datetime(2026, 3, 4, 5, 0, tzinfo=UTC)) == date(2026, 3, 4)


def test_batch_days_leave_out_weekends() -> None:
    week = batch_days(date(2026, 3, 6), date(2026, 3, 10))
    assert week == [date(2026, 3, 6), date(2026, 3, 9), date(2026, 3, 10)]
    assert batch_days(date(2026, 3, 4), date(2026, 3, 4) - timedelta(days=1)) == []

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from tests.papers.conftest import WEDNESDAY, noon
from webapp.papers import listings, schedule
from webapp.papers.days import DAY, batch_days
from webapp.papers.models import Listing

pytestmark = pytest.mark.django_db

State, Source = Listing.State, Listing.Source
MIDNIGHT = datetime(2026, 3, 5, 5, tzinfo=UTC)  # Eastern, Wednesday to Thursday


def asked(state: Listing.State, polls: int, at: datetime, day: date = WEDNESDAY) -> None:
    Listing.objects.update_or_create(
        category="cs.CL",
        date=day,
        defaults={
            "state": state,
            "source": Source.RSS,
            "polls": polls,
            "polled_at": at,
            "changed_at": at,
        },
    )


def test_a_new_eastern_day_is_due_at_once() -> None:
    asked(State.COMPLETE, 1, noon(WEDNESDAY))
    assert schedule.due(["cs.CL"], MIDNIGHT - timedelta(seconds=1)) == ["cs.CL"]  # six hours later
    asked(State.COMPLETE, 2, MIDNIGHT - timedelta(minutes=5))
    assert schedule.due(["cs.CL"], MIDNIGHT - timedelta(seconds=1)) == []
    assert schedule.due(["cs.CL"], MIDNIGHT) == ["cs.CL"]


def test_each_category_is_due_by_itself() -> None:
    asked(State.COMPLETE, 1, noon(WEDNESDAY))
    assert schedule.due(["cs.LG", "cs.CL", "cs.AI"], noon(WEDNESDAY)) == ["cs.LG", "cs.AI"]


@pytest.mark.parametrize("state", [State.STALE, State.FAILED, State.EMPTY])
@pytest.mark.parametrize(
    ("polls", "minutes"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (99, 60)]
)
def test_what_is_not_there_yet_is_asked_for_less_and_less(
    state: Listing.State, polls: int, minutes: int
) -> None:
    asked(state, polls, noon(WEDNESDAY))
    wait = timedelta(minutes=minutes)
    assert schedule.due(["cs.CL"], noon(WEDNESDAY) + wait - timedelta(seconds=1)) == []
    assert schedule.due(["cs.CL"], noon(WEDNESDAY) + wait) == ["cs.CL"]


def test_an_empty_weekend_is_left_in_peace() -> None:
    saturday = date(2026, 3, 7)
    asked(State.EMPTY, 1, noon(saturday), saturday)
    assert schedule.due(["cs.CL"], noon(saturday) + timedelta(hours=5)) == []


def test_missed_days_reach_back_to_the_first_poll() -> None:
    assert schedule.missed("cs.CL", WEDNESDAY) == []
    assert schedule.missed("cs.CL", date(2026, 3, 8)) == [date(2026, 3, 6)]
    asked(State.FAILED, 1, noon(WEDNESDAY), date(2026, 2, 27))
    asked(State.COMPLETE, 1, noon(WEDNESDAY), date(2026, 3, 2))
    assert schedule.missed("cs.CL", WEDNESDAY) == [date(2026, 2, 27), date(2026, 3, 3)]
    asked(State.COMPLETE, 1, noon(WEDNESDAY), date(2026, 1, 30))
    assert schedule.missed("cs.CL", WEDNESDAY) == [
        day for day in batch_days(date(2026, 2, 2), WEDNESDAY - DAY) if day != date(2026, 3, 2)
    ]
    assert schedule.missed("cs.CL", WEDNESDAY, since=date(2026, 3, 2)) == [date(2026, 3, 3)]
    assert schedule.missed("cs.CL", WEDNESDAY, since=WEDNESDAY) == []


def outcome(
    state: State, source: Source, reason: str, at: datetime | None = None, etag: str = ""
) -> Listing:
    return Listing(
        category="cs.CL",
        date=WEDNESDAY,
        state=state,
        source=source,
        reason=reason,
        etag=etag,
        polled_at=at or noon(WEDNESDAY),
        changed_at=at or noon(WEDNESDAY),
    )


def test_a_failure_overwrites_nothing_that_was_found() -> None:
    listings.record_outcome(outcome(State.STALE, Source.RSS, "old", etag='"1"'))
    row = listings.record_outcome(outcome(State.FAILED, Source.RSS, "away"))
    assert (row.state, row.reason, row.etag, row.polls) == (State.STALE, "old", '"1"', 2)
    assert [failure["reason"] for failure in row.failures] == ["old", "away"]


def test_the_audit_keeps_the_latest_failures() -> None:
    for number in range(listings.KEPT_FAILURES + 5):
        row = listings.record_outcome(outcome(State.FAILED, Source.RSS, f"poll {number}"))
    assert len(row.failures) == listings.KEPT_FAILURES
    assert row.failures[-1]["reason"] == f"poll {listings.KEPT_FAILURES + 4}"


def settled_after(feed: State | None, api_days: int) -> bool:
    if feed is not None:
        listings.record_outcome(outcome(feed, Source.RSS, "the feed"))
    for after in range(1, api_days + 1):
        day = WEDNESDAY + after * DAY
        for _ in range(3):  # asked often in a day, it is one day all the same
            listings.record_outcome(outcome(State.EMPTY, Source.API, "the API", noon(day)))
    return WEDNESDAY not in schedule.missed("cs.CL", WEDNESDAY + (api_days + 1) * DAY, WEDNESDAY)


@pytest.mark.parametrize(
    ("feed", "api_days", "settled"),
    [
        (State.EMPTY, 0, False),
        (State.EMPTY, 2, False),
        (State.EMPTY, 3, True),
        (State.STALE, 3, False),
        (State.FAILED, 3, False),
        (None, 3, False),
        (State.STALE, 14, True),  # nobody is asked for ever
    ],
)
def test_a_working_day_is_empty_only_when_feed_and_api_agree_over_days(
    feed: State | None, api_days: int, *, settled: bool
) -> None:
    assert settled_after(feed, api_days) == settled


def test_a_stale_day_is_not_made_empty_by_the_apis_silence() -> None:
    settled_after(State.STALE, 3)
    assert Listing.objects.get(date=WEDNESDAY).state == State.STALE

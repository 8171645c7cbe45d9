"""Nothing from outside sets how far back the site fetches."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from pytest_django import Settings

from webapp.papers.listings import open_rows
from webapp.papers.models import Listing
from webapp.papers.schedule import missed

pytestmark = pytest.mark.django_db
TODAY = date(2026, 3, 12)


@pytest.mark.parametrize("day", [date(1970, 1, 1), date(1, 1, 1), date(2020, 2, 3)])
def test_a_feed_of_long_ago_makes_no_decades_of_rows(day: date, settings: Settings) -> None:
    settings.CATCH_UP_DAYS = 30
    at = datetime(2026, 3, 12, 12, tzinfo=UTC)
    Listing.objects.create(category="cs.CL", date=day, state="stale", polled_at=at, changed_at=at)
    days = missed("cs.CL", TODAY)
    assert min(days) >= TODAY - timedelta(days=30)
    assert 18 <= len(days) <= 22
    open_rows("cs.CL", days, at)
    assert Listing.objects.count() <= 23


def test_an_operator_may_ask_for_more(settings: Settings) -> None:
    settings.CATCH_UP_DAYS = 30
    assert min(missed("cs.CL", TODAY, date(2025, 3, 3))) == date(2025, 3, 3)

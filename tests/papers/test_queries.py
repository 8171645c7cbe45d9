from __future__ import annotations

from datetime import date

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.papers.conftest import WEDNESDAY, noon
from tests.papers.test_store import entry
from webapp.papers import queries
from webapp.papers.days import DAY
from webapp.papers.entries import Batch
from webapp.papers.models import AnnounceType, Listing
from webapp.papers.store import store_batch

pytestmark = pytest.mark.django_db


def take(category: str, kind: AnnounceType, version: int = 1, day: date = WEDNESDAY) -> None:
    one = entry(1, type=kind, version=version)
    store_batch(Batch(category, day, (one,)), Listing.Source.RSS, noon(day), {})


def announced(day: date = WEDNESDAY) -> list[tuple[str, int]]:
    return [(one.announce_type, one.version) for one in queries.announced_on(day)]


def test_announcements_are_merged_over_all_listings_before_any_is_dropped() -> None:
    take("cs.AI", AnnounceType.REPLACE_CROSS, version=2)
    take("cs.CL", AnnounceType.REPLACE, version=2)
    assert announced() == [("replace", 2)]
    take("cs.DC", AnnounceType.CROSS)
    assert announced() == [("cross", 1)]
    take("cs.LG", AnnounceType.NEW)
    with CaptureQueriesContext(connection) as asked:
        merged = queries.announced_on(WEDNESDAY, ["cs.AI"])
    assert [(one.paper.arxiv_id, one.announce_type) for one in merged] == [("2603.00001", "new")]
    assert merged[0].categories == ("cs.AI", "cs.CL", "cs.DC", "cs.LG")
    assert len(asked) == 2
    assert queries.announced_on(WEDNESDAY, ["math.CO"]) == []
    assert queries.announced_on(WEDNESDAY - DAY) == []


def test_days_with_papers() -> None:
    assert queries.dates() == []
    take("cs.CL", AnnounceType.NEW, day=WEDNESDAY - DAY)
    take("cs.LG", AnnounceType.NEW)
    take("cs.CL", AnnounceType.CROSS)
    store_batch(Batch("cs.CL", WEDNESDAY + DAY, ()), Listing.Source.RSS, noon(WEDNESDAY), {})
    assert queries.dates() == [WEDNESDAY, WEDNESDAY - DAY]
    assert queries.dates(1) == [WEDNESDAY]
    assert Listing.objects.filter(date=WEDNESDAY).count() == 2
    assert Listing.objects.count() == 4

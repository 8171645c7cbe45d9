"""Days that do not come in one piece: refused entries, holidays, several who poll at once."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connection

from tests.papers.conftest import WEDNESDAY, noon
from tests.papers.test_polling import FRIDAY, THURSDAY, TUESDAY, State, keys, listing, stored
from tests.servers.arxiv import ArxivServer
from webapp.papers import fetch as http
from webapp.papers import listings, polling, schedule
from webapp.papers.days import DAY
from webapp.papers.entries import Batch, Entry
from webapp.papers.listings import record_outcome
from webapp.papers.models import AnnounceType, Listing
from webapp.papers.schedule import fetch

pytestmark = pytest.mark.django_db


def test_the_days_that_wait_for_the_next_fetch_have_rows(
    arxiv: ArxivServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "MOST_MISSED", 1)
    fetch(["cs.CL"], since=TUESDAY - DAY, moment=noon(WEDNESDAY))
    assert listing(TUESDAY).state == State.COMPLETE
    assert listing(TUESDAY - DAY).reason.startswith("not requested")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert listing(TUESDAY - DAY).state == State.COMPLETE


def test_a_304_that_nobody_asked_for_is_no_batch(
    arxiv: ArxivServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "get", lambda url, *_: http.HttpAnswer(url, 304, {}, b""))
    report = fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert report.failed
    assert "304 to a request without conditions" in listing(WEDNESDAY).reason


# The API fails at first, or does not know the paper yet.
@pytest.mark.parametrize("meanwhile", ["", "feed-error", "empty"])
def test_an_entry_refused_by_its_form_is_fetched_by_its_id(
    arxiv: ArxivServer, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    whole = keys(arxiv, WEDNESDAY)
    lost = next(p for k, p in arxiv.corpus.feed("cs.CL", WEDNESDAY) if k == "new")
    real = http.get

    def get(*asked: Any, **options: Any) -> http.HttpAnswer:
        answer = real(*asked, **options)
        feed = answer.body.decode()
        if "<item>" not in feed:
            return answer
        head, item, tail = _item(feed, lost.arxiv_id)
        body = (head + item.replace("<title>", "<title>&", 1) + tail).encode()
        return replace(answer, body=body)

    monkeypatch.setattr(http, "get", get)
    if meanwhile:
        arxiv.behave(meanwhile, only="api")
        fetch(["cs.CL"], moment=noon(WEDNESDAY))
        assert {name for name, *_ in whole - stored(WEDNESDAY)} == {lost.arxiv_id}
        arxiv.behave("normal")
    fetch(["cs.CL"], moment=noon(WEDNESDAY) + timedelta(hours=6))
    assert stored(WEDNESDAY) == whole
    (problem,) = listing(WEDNESDAY).problems
    assert problem["reason"].endswith("taken from the API instead")
    fetch(["cs.CL"], moment=noon(WEDNESDAY) + timedelta(hours=12))
    assert arxiv.log[-1].status == 304


def _item(feed: str, arxiv_id: str) -> tuple[str, str, str]:
    """The feed before, in and after the entry of a paper."""
    for start in (match.start() for match in re.finditer("<item>", feed)):
        end = feed.index("</item>", start)
        if arxiv_id in feed[start:end]:
            return feed[:start], feed[start:end], feed[end:]
    raise AssertionError(f"no entry of {arxiv_id}")


@pytest.mark.parametrize(
    ("sent", "state"), [(range(1, 9), State.COMPLETE), (range(1, 7), State.STALE)]
)
def test_after_a_holiday_the_feed_brings_what_the_api_gave_early(sent: range, state: str) -> None:
    def batch(day: date, numbers: range) -> Batch:
        entries = (Entry(f"2603.{n:05d}", 1, AnnounceType.NEW, "T", "A.") for n in numbers)
        return Batch("cs.CL", day, tuple(entries))

    poller = polling.Poller(noon(FRIDAY))
    poller.store(batch(THURSDAY, range(1, 7)), Listing.Source.API)
    poller._take(batch(FRIDAY, sent), Listing.Source.RSS)
    assert listing(FRIDAY).state == state


def test_an_overlap_is_of_new_papers_where_there_are_any() -> None:
    new = Entry("2603.00001", 1, AnnounceType.NEW, "T", "A.")
    cross = Entry("2603.00002", 1, AnnounceType.CROSS, "T", "A.")
    polling.Poller(noon(WEDNESDAY)).store(Batch("cs.CL", WEDNESDAY, (new,)), Listing.Source.RSS)
    shares = [
        listings._overlap(Batch("cs.CL", THURSDAY, entries), listing(WEDNESDAY))
        for entries in ((new, cross), (cross,))
    ]
    assert shares == [1.0, 0.0]


def test_what_another_process_stored_while_arxiv_answered_304_stands(
    arxiv: ArxivServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    real = http.get

    def get(*asked: Any) -> Any:
        answer = real(*asked)
        Listing.objects.update(counts={"new": 99}, etag="newer")
        return answer

    monkeypatch.setattr(http, "get", get)
    fetch(["cs.CL"], moment=noon(WEDNESDAY) + timedelta(hours=6))
    assert arxiv.log[-1].status == 304
    row = listing(WEDNESDAY)
    assert (row.counts, row.etag, row.polls) == ({"new": 99}, "newer", 2)


@pytest.mark.django_db(transaction=True)
def test_of_many_who_settle_a_day_at_once_each_is_counted() -> None:
    barrier = Barrier(8)

    def settle(at: datetime) -> None:
        barrier.wait()
        row = Listing(category="cs.CL", date=WEDNESDAY, state="empty", source="api", reason="none")
        row.polled_at = row.changed_at = at
        record_outcome(row)
        connection.close()

    threads = [Thread(target=settle, args=(noon(WEDNESDAY + n * DAY),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row = listing(WEDNESDAY)
    assert (row.polls, len(row.api_empty_on)) == (8, 8)


def test_a_poll_that_finds_the_same_leaves_pages_as_they_are() -> None:
    """An empty feed may come with another ETag each time, which no page shows."""
    for hour, (etag, reason) in enumerate((("a", "empty"), ("b", "empty"), ("c", "no papers"))):
        at = noon(WEDNESDAY) + timedelta(hours=hour)
        row = Listing(category="cs.CL", date=WEDNESDAY, state=State.EMPTY, source="rss")
        row.reason, row.etag, row.polled_at, row.changed_at = reason, etag, at, at
        record_outcome(row)
        stored = listing(WEDNESDAY)
        assert (stored.etag, stored.polls, stored.polled_at) == (etag, hour + 1, at)
        assert stored.changed_at == (at if reason == "no papers" else noon(WEDNESDAY))

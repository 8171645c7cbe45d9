from __future__ import annotations

import re
from datetime import date, timedelta

import pytest
from django.urls import reverse

from tests.papers.conftest import WEDNESDAY, noon
from tests.papers.rows import rows
from tests.servers import hostile
from tests.servers.arxiv import ArxivServer
from webapp.papers import fetch as http
from webapp.papers import limiter
from webapp.papers.days import DAY, batch_days
from webapp.papers.identifiers import checked_category
from webapp.papers.models import Announcement, Listing, Paper
from webapp.papers.queries import announced_on
from webapp.papers.sample import load_sample
from webapp.papers.schedule import due, fetch

pytestmark = pytest.mark.django_db

THURSDAY, FRIDAY = WEDNESDAY + DAY, WEDNESDAY + 2 * DAY
TUESDAY = WEDNESDAY - DAY
State = Listing.State


def listing(day: date, category: str = "cs.CL") -> Listing:
    return Listing.objects.get(category=category, date=day)


def keys(arxiv: ArxivServer, day: date, category: str = "cs.CL") -> set[tuple[str, str, int]]:
    return {(p.arxiv_id, kind, p.version) for kind, p in arxiv.corpus.feed(category, day)}


def stored(day: date, category: str = "cs.CL") -> set[tuple[str, str, int]]:
    found = Announcement.objects.filter(listing__date=day, listing__category=category)
    return set(found.values_list("paper__arxiv_id", "type", "version"))


def test_a_day_is_complete_and_counted(arxiv: ArxivServer) -> None:
    report = fetch(["cs.CL", "cs.LG"], moment=noon(WEDNESDAY))
    assert [(row.category, row.state) for row in report.rows] == [
        ("cs.CL", State.COMPLETE),
        ("cs.LG", State.COMPLETE),
    ]
    assert report.dates == {WEDNESDAY}
    assert not report.failed
    assert stored(WEDNESDAY) == keys(arxiv, WEDNESDAY)
    row = listing(WEDNESDAY)
    assert sum(row.counts.values()) == len(keys(arxiv, WEDNESDAY))
    assert (row.source, row.polls, row.problems) == ("rss", 1, [])
    assert row.etag


def test_an_unchanged_feed_costs_a_304_and_changes_no_day(arxiv: ArxivServer) -> None:
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    before = rows()
    report = fetch(["cs.CL"], moment=noon(WEDNESDAY) + timedelta(hours=6))
    assert [request.status for request in arxiv.log] == [200, 304]
    assert rows() == before
    assert report.dates == set()
    assert report.rows[0].state == State.COMPLETE
    assert listing(WEDNESDAY).polls == 2


def test_a_stale_batch_is_known_by_its_papers_and_polled_until_fresh(arxiv: ArxivServer) -> None:
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    arxiv.be(THURSDAY)
    arxiv.behave("stale")
    report = fetch(["cs.CL"], moment=noon(THURSDAY))
    assert report.rows[0].state == State.STALE
    assert listing(THURSDAY).reason == "arXiv sends the batch of 2026-03-04 again under this date"
    assert stored(THURSDAY) == set()
    fetch(["cs.CL"], moment=noon(THURSDAY) + timedelta(minutes=5))  # 304: still stale
    assert (listing(THURSDAY).state, listing(THURSDAY).polls) == (State.STALE, 2)
    arxiv.behave("normal")
    report = fetch(["cs.CL"], moment=noon(THURSDAY) + timedelta(minutes=10))
    assert listing(THURSDAY).state == State.COMPLETE
    assert report.dates == {THURSDAY}
    assert stored(THURSDAY) == keys(arxiv, THURSDAY)
    assert stored(WEDNESDAY) == keys(arxiv, WEDNESDAY)


def test_a_feed_that_was_not_built_yet_is_stale_today(arxiv: ArxivServer) -> None:
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    fetch(["cs.CL"], moment=noon(THURSDAY))  # 304: the feed of Wednesday
    row = listing(THURSDAY)
    assert (row.state, row.reason) == (
        State.STALE,
        "arXiv still serves the batch of Wednesday 2026-03-04",
    )
    arxiv.be(THURSDAY)
    fetch(["cs.CL"], moment=noon(THURSDAY) + timedelta(minutes=5))
    assert listing(THURSDAY).state == State.COMPLETE


def test_a_first_poll_that_is_sent_the_day_before_leaves_today_stale(arxiv: ArxivServer) -> None:
    arxiv.behave("late")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert stored(TUESDAY) == keys(arxiv, TUESDAY)
    assert listing(WEDNESDAY).state == State.STALE
    assert listing(WEDNESDAY).reason == "arXiv still serves the batch of Tuesday 2026-03-03"
    assert due(["cs.CL"], noon(WEDNESDAY) + timedelta(minutes=5)) == ["cs.CL"]


def test_a_weekend_without_a_feed_of_its_own_is_left_in_peace(arxiv: ArxivServer) -> None:
    arxiv.be(FRIDAY)
    fetch(["cs.CL"], moment=noon(FRIDAY))
    saturday = noon(FRIDAY + DAY)
    fetch(["cs.CL"], moment=saturday)
    assert listing(FRIDAY + DAY).reason == "arXiv announces nothing on a Saturday"
    assert due(["cs.CL"], saturday + timedelta(hours=5)) == []


def test_a_first_poll_that_met_a_stale_feed_is_put_right(arxiv: ArxivServer) -> None:
    arxiv.behave("stale")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert listing(WEDNESDAY).state == State.COMPLETE  # nobody can know better
    arxiv.behave("normal")
    fetch(["cs.CL"], moment=noon(WEDNESDAY) + timedelta(hours=6))
    assert stored(WEDNESDAY) == keys(arxiv, WEDNESDAY)
    assert "the batch before" in listing(WEDNESDAY).reason


def test_a_valid_feed_without_items_is_empty_not_failed(arxiv: ArxivServer) -> None:
    arxiv.behave("empty")
    report = fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert not report.failed
    assert (listing(WEDNESDAY).state, listing(WEDNESDAY).counts) == (State.EMPTY, {})
    assert "holiday" in listing(WEDNESDAY).reason


def test_a_first_look_on_a_sunday_shows_fridays_papers(arxiv: ArxivServer) -> None:
    sunday = date(2026, 3, 8)
    arxiv.be(sunday)
    report = fetch(["cs.CL"], moment=noon(sunday))
    assert listing(sunday).reason == "arXiv announces nothing on a Sunday"
    assert listing(date(2026, 3, 6)).source == Listing.Source.API
    assert report.dates == {date(2026, 3, 6)}


@pytest.mark.parametrize("scenario", ["truncated", "empty", "stale", "feed-error", "redirect"])
@pytest.mark.parametrize("known_before", [True, False])
def test_a_complete_listing_is_overwritten_by_nothing(
    arxiv: ArxivServer, scenario: str, known_before: bool
) -> None:
    if known_before:
        arxiv.be(TUESDAY)
        fetch(["cs.CL"], moment=noon(TUESDAY))
        arxiv.be(WEDNESDAY)
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    before = rows()
    arxiv.behave(scenario)
    fetch(["cs.CL"], moment=noon(WEDNESDAY) + timedelta(hours=6))
    assert rows() == before


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("feed-error", "HTTP 400: Feed error for query"),
        ("truncated", "cut off before its end"),
        ("not-a-feed", "neither RSS nor Atom"),
        ("huge", "more than 20 MB"),
        ("redirect", "redirects to another host, localhost.invalid"),
        ("broken", "HTTP 500"),
    ],
)
def test_atom_stands_in_for_a_broken_rss(arxiv: ArxivServer, scenario: str, reason: str) -> None:
    arxiv.behave(scenario, only="rss")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert (listing(WEDNESDAY).state, listing(WEDNESDAY).source) == (State.COMPLETE, "atom")
    assert stored(WEDNESDAY) == keys(arxiv, WEDNESDAY)
    arxiv.behave(scenario)
    report = fetch(["cs.LG"], moment=noon(WEDNESDAY))
    assert report.failed
    assert reason in report.reason
    assert listing(WEDNESDAY, "cs.LG").state == State.FAILED
    assert reason in listing(WEDNESDAY, "cs.LG").reason
    arxiv.behave("normal")
    fetch(["cs.LG"], moment=noon(WEDNESDAY) + timedelta(minutes=5))
    assert (listing(WEDNESDAY, "cs.LG").state, listing(WEDNESDAY, "cs.LG").reason) == (
        State.COMPLETE,
        "",
    )


def test_who_is_out_of_reach_is_not_asked_for_every_category(arxiv: ArxivServer) -> None:
    arxiv.behave("hang-up")
    report = fetch(["cs.AI", "cs.CL", "cs.LG"], moment=noon(WEDNESDAY))
    assert report.failed
    assert len(arxiv.log) == 2
    assert {row.reason for row in report.rows} == {report.reason}
    assert "cannot be reached" in report.reason
    assert Listing.objects.filter(state=State.FAILED).count() == 3


def test_a_long_retry_after_stops_the_round(arxiv: ArxivServer) -> None:
    arxiv.retry_after = "900"
    arxiv.behave("throttled")
    report = fetch(["cs.AI", "cs.CL"], moment=noon(WEDNESDAY))
    assert len(arxiv.log) == 1
    assert "asks us to wait 900 s (HTTP 429)" in report.reason
    with pytest.raises(limiter.SlotTakenError), limiter.slot(http.MOST_WAIT):
        pytest.fail("nobody may ask")


def test_bad_entries_stand_in_the_audit_and_the_others_in_the_day(arxiv: ArxivServer) -> None:
    arxiv.behave("hostile")
    report = fetch(["cs.CL"], moment=noon(WEDNESDAY))
    row = listing(WEDNESDAY)
    assert row.state == State.COMPLETE
    assert len(row.problems) == len(report.rows[0].problems) == hostile.REFUSED + 1
    assert all(problem["item"] and problem["reason"] for problem in row.problems)
    assert keys(arxiv, WEDNESDAY) <= stored(WEDNESDAY)
    assert not Paper.objects.filter(title_html__contains="<script").exists()


def test_wrong_bytes_cost_no_entry(arxiv: ArxivServer) -> None:
    arxiv.behave("latin-1")
    fetch(["cs.CL", "cs.LG"], moment=noon(WEDNESDAY))
    assert stored(WEDNESDAY) == keys(arxiv, WEDNESDAY)
    names = {author["name"] for paper in Paper.objects.all() for author in paper.authors}
    assert {"Þorsson", "Íris"} <= {name.split()[-1] for name in names}
    assert not any("\ufffd" in name or "Ã" in name for name in names)


def test_a_feed_from_the_future_is_refused(arxiv: ArxivServer) -> None:
    report = fetch(["cs.CL"], moment=noon(TUESDAY - 7 * DAY))
    assert report.failed
    assert "dated 2026-03-04, which has not come yet" in report.reason


def test_a_paper_is_new_wherever_it_was_cross_listed_first(arxiv: ArxivServer) -> None:
    fetch(["cs.AI", "cs.CL", "cs.DC", "cs.LG"], moment=noon(WEDNESDAY))
    merged = {one.paper.arxiv_id: one for one in announced_on(WEDNESDAY)}
    new = {
        paper.arxiv_id
        for category in ("cs.AI", "cs.CL", "cs.DC", "cs.LG")
        for kind, paper in arxiv.corpus.feed(category, WEDNESDAY)
        if kind == "new"
    }
    crossed = set(
        Announcement.objects.filter(type="cross").values_list("paper__arxiv_id", flat=True)
    )
    assert len(new & crossed) > 5
    assert {name for name, one in merged.items() if one.announce_type == "new"} == new
    in_lg = announced_on(WEDNESDAY, ["cs.LG"])
    assert {one.paper.arxiv_id for one in in_lg} == {
        name for name, *_ in keys(arxiv, WEDNESDAY, "cs.LG")
    }
    assert any(
        one.announce_type == "new" and one.paper.primary_category != "cs.LG" for one in in_lg
    )


def test_missed_days_come_from_the_api(arxiv: ArxivServer) -> None:
    arxiv.be(date(2026, 2, 26))
    fetch(["cs.CL"], moment=noon(date(2026, 2, 26)))
    arxiv.be(WEDNESDAY)
    seen: list[tuple[int, int, str]] = []
    report = fetch(["cs.CL"], None, lambda *told: seen.append(told), moment=noon(WEDNESDAY))
    missed = {date(2026, 2, 27), date(2026, 3, 2), TUESDAY}
    assert report.dates == {*missed, WEDNESDAY}
    for day in missed:
        assert (listing(day).state, listing(day).source) == (State.COMPLETE, "api")
        by_feed = {key for key in keys(arxiv, day) if key[1] == "new"}
        assert {key for key in stored(day) if key[1] == "new"} == by_feed
    assert seen == [(0, 1, "cs.CL today"), (1, 2, "cs.CL 2026-02-27 to 2026-03-03"), (2, 2, "done")]
    asked = len(arxiv.log)
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert len(arxiv.log) == asked + 1  # nothing is missed any more


def test_an_empty_feed_on_a_working_day_loses_no_paper(arxiv: ArxivServer) -> None:
    arxiv.behave("empty", only="rss")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert listing(WEDNESDAY).state == State.EMPTY
    arxiv.be(THURSDAY)
    arxiv.behave("normal")
    fetch(["cs.CL"], moment=noon(THURSDAY))
    new = {key for key in keys(arxiv, WEDNESDAY) if key[1] == "new"}
    assert new
    assert new <= stored(WEDNESDAY)
    assert listing(WEDNESDAY).state == State.COMPLETE


def test_a_stale_day_that_the_api_does_not_know_yet_is_asked_for_again(arxiv: ArxivServer) -> None:
    arxiv.be(TUESDAY)
    fetch(["cs.CL"], moment=noon(TUESDAY))
    arxiv.be(WEDNESDAY)
    arxiv.behave("stale", only="rss")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    arxiv.be(THURSDAY)
    arxiv.behave("empty", only="api")
    fetch(["cs.CL"], moment=noon(THURSDAY))
    assert (listing(WEDNESDAY).state, stored(WEDNESDAY)) == (State.STALE, set())
    arxiv.be(FRIDAY)
    arxiv.behave("normal")
    fetch(["cs.CL"], moment=noon(FRIDAY))
    assert listing(WEDNESDAY).state == State.COMPLETE
    assert {key for key in keys(arxiv, WEDNESDAY) if key[1] == "new"} <= stored(WEDNESDAY)


def test_every_working_day_of_an_absence_has_a_row_and_its_papers(arxiv: ArxivServer) -> None:
    first = WEDNESDAY - 26 * DAY
    arxiv.be(first)
    fetch(["cs.CL"], moment=noon(first))
    arxiv.be(WEDNESDAY)
    arxiv.corpus.days = 30
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    away = batch_days(first, WEDNESDAY)
    states = dict(Listing.objects.values_list("date", "state"))
    assert {day: states.get(day) for day in away} == dict.fromkeys(away, State.COMPLETE)


def test_a_day_that_was_not_asked_for_says_so(arxiv: ArxivServer) -> None:
    arxiv.be(WEDNESDAY - 7 * DAY)
    fetch(["cs.CL"], moment=noon(WEDNESDAY - 7 * DAY))
    arxiv.be(WEDNESDAY)
    arxiv.behave("hang-up", only="api")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    between = Listing.objects.filter(date__gt=WEDNESDAY - 7 * DAY, date__lt=WEDNESDAY)
    assert {(row.state, bool(row.failures)) for row in between} == {(State.FAILED, True)}
    assert between.count() == 4


def test_since_asks_for_the_days_from_there(arxiv: ArxivServer) -> None:
    fetch(["cs.CL"], since=date(2026, 2, 24), moment=noon(WEDNESDAY))
    days = set(Listing.objects.values_list("date", flat=True))
    assert days == {date(2026, 2, day) for day in (24, 25, 26, 27)} | {
        date(2026, 3, day) for day in (2, 3, 4)
    }
    # A run of more than five days is more than one question.
    assert sum(path.startswith("/api") for path in arxiv.paths()) == 2


def test_a_stale_feed_after_a_day_from_the_api_is_known(arxiv: ArxivServer) -> None:
    fetch(["cs.CL"], since=TUESDAY, moment=noon(WEDNESDAY))
    Listing.objects.filter(date=WEDNESDAY).delete()
    arxiv.behave("stale", only="rss")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert listing(WEDNESDAY).state == State.STALE


def test_an_api_that_fails_leaves_the_days_failed_and_missed(arxiv: ArxivServer) -> None:
    arxiv.behave("feed-error", only="api")
    report = fetch(["cs.CL"], since=TUESDAY, moment=noon(WEDNESDAY))
    assert not report.failed
    assert listing(TUESDAY).state == State.FAILED
    arxiv.behave("normal")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert listing(TUESDAY).state == State.COMPLETE


# The last two have no address among the pages, or no place in PostgreSQL's columns.
@pytest.mark.parametrize("name", ["../cs", "cs.C", "cs." + 20 * "A", 33 * "a"])
def test_a_name_that_is_no_category_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"'{re.escape(name)}' is no arXiv category"):
        fetch(["cs.CL", name])


def test_every_category_that_is_accepted_has_a_page() -> None:
    for name in ("cs.CL", "hep-th", "cond-mat.quant-gas", "physics.atm-clus", "astro-ph"):
        assert reverse("digests:category", args=[checked_category(name)]) == f"/category/{name}/"


def test_the_sample_day_is_loaded_once_while_there_is_no_real_one(arxiv: ArxivServer) -> None:
    arxiv.behave("hang-up")
    failed = fetch(["cs.CL"], moment=noon(WEDNESDAY))
    report = load_sample(failed.reason, moment=noon(WEDNESDAY))
    sample = date(2025, 12, 18)
    assert report.dates == {sample}
    assert Paper.objects.filter(is_sample=True).count() == Paper.objects.count() == 36
    assert "cannot be reached" in listing(sample).reason
    assert load_sample(failed.reason).rows == []  # once is enough
    arxiv.behave("empty")
    assert fetch(["cs.CL"], moment=noon(WEDNESDAY)).dates == set()
    assert Paper.objects.count() == 36
    arxiv.behave("normal")
    report = fetch(["cs.CL"], moment=noon(WEDNESDAY) + timedelta(hours=1))
    assert WEDNESDAY in report.dates
    assert Paper.objects.filter(is_sample=True).count() == 36  # its digest decides when it goes
    assert load_sample().rows == []  # never again

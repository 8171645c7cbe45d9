from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from io import StringIO
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from tests import factories
from tests.servers.arxiv import ArxivServer
from webapp.digests.daily import ask_for, build_asked, categories_to_fetch, update
from webapp.digests.models import Digest, Profile
from webapp.papers import schedule
from webapp.papers.days import last_batch_day
from webapp.papers.models import Listing, Paper
from webapp.papers.queries import announced_on
from workers.site import tasks

pytestmark = pytest.mark.django_db
SAMPLE = date(2025, 12, 18)


@pytest.fixture
def arxiv(settings: Settings) -> Iterator[ArxivServer]:
    settings.ARXIV_SECONDS = 0
    settings.ARXIV_CATEGORIES = ["cs.AI", "cs.CL"]
    with ArxivServer() as server:
        settings.ARXIV_RSS_URL = server.rss_url
        settings.ARXIV_API_URL = server.api_url
        yield server


def test_categories_of_settings_and_profiles_are_wanted_once(settings: Settings) -> None:
    settings.ARXIV_CATEGORIES = ["cs.CL", "cs.AI"]
    Profile.objects.create(slug="one", name="One", categories=["hep-th", "cs.cl", "and", 40 * "a"])
    assert categories_to_fetch() == ["cs.CL", "cs.AI", "hep-th"]


def test_a_round_ends_with_the_digest(arxiv: ArxivServer) -> None:
    report = update(["cs.AI", "cs.CL"])
    assert not report.failed
    digest = Digest.objects.get(profile__is_site=True, date=arxiv.today)
    assert digest.entries.count() > 0
    assert not digest.is_sample


def test_without_arxiv_the_sample_is_shown_until_it_answers(arxiv: ArxivServer) -> None:
    arxiv.behave("hang-up")
    report = update(["cs.AI", "cs.CL"])
    assert report.failed
    assert SAMPLE in report.dates
    assert Digest.objects.get().is_sample
    arxiv.behave("normal")
    update(["cs.AI", "cs.CL"])
    assert not Digest.objects.filter(date=SAMPLE).exists()
    assert Digest.objects.filter(date=arxiv.today, is_sample=False).exists()


def test_a_process_that_died_before_its_digests_is_made_good(arxiv: ArxivServer) -> None:
    with (
        mock.patch("webapp.digests.daily.build", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        update(["cs.AI"])
    assert not Digest.objects.exists()
    assert update(["cs.AI"]).dates == set()  # 304
    assert Digest.objects.exists()


def test_fetching_builds_nothing_and_building_asks_arxiv_nothing(arxiv: ArxivServer) -> None:
    """Else what readers look up at arXiv would wait while a day is built."""
    tasks.poll()
    tasks.enrich_papers()
    assert Paper.objects.exists()
    assert not Digest.objects.exists()
    asked = len(arxiv.log)
    tasks.build_digests()
    assert Digest.objects.filter(date=arxiv.today).exists()
    assert len(arxiv.log) == asked


def test_a_day_whose_papers_wait_for_their_digest_says_so(
    arxiv: ArxivServer, client: Client
) -> None:
    tasks.poll()
    for path in ("/", f"/digest/{arxiv.today}/"):
        page = client.get(path).content.decode()
        assert "digest is being built" in page
        assert "Nothing has been fetched" not in page
    tasks.build_digests()
    assert "digest is being built" not in client.get("/").content.decode()


def announced(day: date) -> date:
    """A day with a paper, whose digest is not built."""
    factories.make_day(1, day, day.day)
    Digest.objects.all().delete()
    return day


def test_building_that_was_killed_goes_on_where_it_was(arxiv: ArxivServer) -> None:
    """Only the day during which it was killed is looked at again, not those before it."""
    days = [announced(date(2026, 3, number)) for number in (2, 3, 4)]
    ask_for(days)
    looked_at: list[date] = []

    def killed_on_the_second(day: date) -> object:
        looked_at.append(day)
        if len(looked_at) == 2:
            raise KeyboardInterrupt
        return announced_on(day)

    with mock.patch("webapp.digests.batch.announced_on", killed_on_the_second):
        with pytest.raises(KeyboardInterrupt):
            tasks.build_digests()
        assert Digest.objects.count() == 1
        tasks.build_digests()
    assert [day.day for day in looked_at] == [2, 3, 3, 4]
    assert Digest.objects.count() == 3


def test_a_day_asked_for_again_while_it_is_built_is_built_again() -> None:
    day = announced(date(2026, 3, 2))
    ask_for([day])

    def asked_meanwhile(at: date) -> object:
        ask_for([at])
        return announced_on(at)

    with mock.patch("webapp.digests.batch.announced_on", asked_meanwhile):
        build_asked()
    assert build_asked() == [day]
    assert build_asked() == []


def run(*options: str) -> str:
    out = StringIO()
    call_command("fetch", *options, stdout=out)
    return out.getvalue()


def test_the_command_prints_a_table_of_counts(arxiv: ArxivServer) -> None:
    lines = run("--category", "cs.AI", "cs.CL", "--category", "cs.LG").splitlines()
    assert lines[0].split() == [
        *("category", "day", "state", "new", "cross", "replace", "replace-cross", "refused", "why")
    ]
    rows = {line.split()[0]: line.split() for line in lines[1:] if str(arxiv.today) in line}
    assert rows.keys() == {"cs.AI", "cs.CL", "cs.LG"}
    listing = Listing.objects.get(category="cs.LG", date=arxiv.today)
    assert rows["cs.LG"][2:5] == [
        "complete",
        str(listing.counts["new"]),
        str(listing.counts["cross"]),
    ]


def test_the_command_fetches_what_is_wanted_since_a_day(arxiv: ArxivServer) -> None:
    since = last_batch_day(date.fromordinal(arxiv.today.toordinal() - 7))
    out = run("--since", since.isoformat())
    assert f"cs.AI     {since}  complete" in out
    assert f"cs.CL     {since}  complete" in out


def test_the_command_says_why_nothing_was_fetched(arxiv: ArxivServer) -> None:
    arxiv.behave("feed-error")
    with pytest.raises(CommandError, match=r"Nothing was fetched: .*Feed error for query"):
        run("--category", "cs.AI")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--category", "cs.AI", "../etc"), "'../etc' is no arXiv category"),
        (("--since", "yesterday"), "--since: 'yesterday': write a day as 2026-03-02"),
    ],
)
def test_the_command_refuses_what_it_cannot_read(options: tuple[str, ...], reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        run(*options)


def test_a_tick_asks_for_what_is_due_and_the_next_for_nothing(arxiv: ArxivServer) -> None:
    tasks.poll()
    asked = len(arxiv.log)
    assert asked >= 2
    due = schedule.due(categories_to_fetch(), datetime.now(UTC))
    tasks.poll()
    assert len(arxiv.log) == asked or due  # a holiday of the calendar alone is asked for again


@pytest.mark.parametrize("scenario", ["normal", "hang-up"])
def test_fetch_now_in_two_windows_asks_arxiv_once(arxiv: ArxivServer, scenario: str) -> None:
    """Also while arXiv does not answer: then each request is repeated anyway."""
    tasks.poll()
    arxiv.behave(scenario)
    later = datetime.now(UTC).timestamp() + 120
    tasks.poll(later)  # nobody asked shortly before it
    Listing.objects.update(polled_at=datetime.fromtimestamp(later, UTC))
    asked = len(arxiv.log)
    for pressed in (later, later + 1, later + 9):
        tasks.poll(pressed)
    assert len(arxiv.log) == asked
    tasks.poll(later + 11)
    assert len(arxiv.log) > asked


def test_enrichment_puts_the_digest_in_its_final_order(arxiv: ArxivServer) -> None:
    tasks.poll()
    tasks.enrich_papers()
    assert not Paper.objects.filter(enriched_at=None).exists()
    arxiv.behave("broken")
    Paper.objects.update(enriched_at=None)
    tasks.enrich_papers()  # said in the log, and waits for the next tick
    assert Paper.objects.filter(enriched_at=None).exists()

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from tests.servers.arxiv import ArxivServer
from webapp.papers import fetch
from webapp.papers.models import ArxivSlot

pytestmark = pytest.mark.django_db


def url(arxiv: ArxivServer) -> str:
    return f"{arxiv.rss_url}/rss/cs.CL"


def free_in() -> float:
    row = ArxivSlot.objects.annotate(now=Now()).get()
    return (row.free_at - row.now).total_seconds()


def test_an_answer_comes_whole_unpacked_and_signed(arxiv: ArxivServer, settings: Settings) -> None:
    settings.ARXIV_CONTACT = "mailto:keeper@harbour.example"
    answer = fetch.get(url(arxiv))
    assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
    assert answer.body.endswith(b"</rss>\n")
    assert arxiv.log[0].headers["user-agent"] == (
        "Assay/0.1 (arXiv digest; mailto:keeper@harbour.example)"
    )


def test_an_unchanged_feed_is_304(arxiv: ArxivServer) -> None:
    etag = fetch.get(url(arxiv)).headers["etag"]
    answer = fetch.get(url(arxiv), {"if-none-match": etag})
    assert (answer.status, answer.body) == (304, b"")


@pytest.mark.parametrize("scenario", ["huge", "bomb"])
def test_a_body_of_50_mb_is_refused_on_the_way(arxiv: ArxivServer, scenario: str) -> None:
    arxiv.then(scenario)
    with pytest.raises(fetch.BadAnswerError, match="more than 20 MB"):
        fetch.get(url(arxiv))
    assert len(arxiv.log) == 1


@pytest.mark.parametrize("scenario", ["drip", "drip-head"])
def test_a_slow_drip_ends_at_the_deadline(
    arxiv: ArxivServer, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "TOTAL_SECONDS", 0.5)
    arxiv.behave(scenario)
    with pytest.raises(fetch.OutOfReachError, match="took longer than"):
        fetch.get(url(arxiv))  # it drips for ever


def test_a_redirect_to_another_host_is_not_followed(arxiv: ArxivServer) -> None:
    arxiv.then("redirect")
    with pytest.raises(fetch.BadAnswerError, match=r"another host, localhost\.invalid"):
        fetch.get(url(arxiv))


def test_a_redirect_on_the_host_is(arxiv: ArxivServer) -> None:
    arxiv.then("moved")
    assert fetch.get(url(arxiv)).url == f"{arxiv.rss_url}/moved/rss/cs.CL"


@pytest.mark.parametrize(
    ("here", "there", "allowed"),
    [
        ("https://rss.arxiv.org/a", "https://rss.arxiv.org/b", True),
        ("http://rss.arxiv.org/a", "https://rss.arxiv.org/b", True),
        ("https://rss.arxiv.org/a", "http://rss.arxiv.org/b", False),
        ("https://rss.arxiv.org/a", "https://rss.arxiv.org.evil.example/b", False),
        ("https://rss.arxiv.org/a", "https://rss.arxiv.org@evil.example/b", False),
        ("https://rss.arxiv.org/a", "https://rss.arxiv.org:8443/b", False),
        ("https://rss.arxiv.org/a", "https://rss.arxiv.org:port/b", False),
        ("https://rss.arxiv.org/a", "file:///etc/passwd", False),
    ],
)
def test_where_a_redirect_may_lead(here: str, there: str, allowed: bool) -> None:
    assert fetch._same_place(here, there) is allowed


@pytest.mark.parametrize("scenario", ["throttled", "unavailable", "broken", "hang-up"])
def test_what_may_pass_is_asked_again(arxiv: ArxivServer, scenario: str) -> None:
    arxiv.retry_after = "0"
    arxiv.then(scenario)
    assert fetch.get(url(arxiv)).status == 200
    assert len(arxiv.log) == 2


def test_retry_after_holds_the_next_attempt_back(arxiv: ArxivServer) -> None:
    arxiv.retry_after = "1"
    arxiv.then("throttled")
    fetch.get(url(arxiv))
    assert arxiv.log[1].began - arxiv.log[0].began >= 0.95


def test_retry_after_as_a_date_holds_everybody_back(arxiv: ArxivServer) -> None:
    arxiv.retry_after = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    arxiv.then("unavailable")
    with pytest.raises(fetch.AskedToWaitError, match=r"wait \d+ s \(HTTP 503\)"):
        fetch.get(url(arxiv))
    assert 590 < free_in() <= 600
    with pytest.raises(fetch.AskedToWaitError, match="next request to arXiv in"):
        fetch.get(url(arxiv))
    assert len(arxiv.log) == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("120", 120), ("99999999999", 3600), ("-5", None), ("soon", None), ("", None), ("٣", None)],
)
def test_only_sensible_waits_are_believed(value: str, seconds: float | None) -> None:
    assert fetch.retry_after(value) == seconds


def test_a_date_gone_by_asks_for_no_wait() -> None:
    assert fetch.retry_after("Wed, 04 Mar 2020 00:00:00 GMT") == 0


def test_without_retry_after_the_wait_doubles(
    arxiv: ArxivServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ARXIV_SECONDS = 3
    assert 1.5 <= fetch._backoff(0) <= 4.5
    assert 6 <= fetch._backoff(2) <= 18
    assert fetch._backoff(30) == 60


def test_an_error_that_lasts_is_said(arxiv: ArxivServer) -> None:
    arxiv.behave("broken")
    with pytest.raises(fetch.BadAnswerError, match="answers HTTP 500"):
        fetch.get(url(arxiv))
    assert len(arxiv.log) == fetch.ATTEMPTS
    arxiv.behave("feed-error")
    with pytest.raises(fetch.BadAnswerError, match=r"HTTP 400: Feed error for query: /rss/cs\.CL"):
        fetch.get(url(arxiv))
    assert len(arxiv.log) == fetch.ATTEMPTS + 1  # a wrong question stays wrong


def test_nobody_there(arxiv: ArxivServer) -> None:
    with pytest.raises(fetch.OutOfReachError, match="cannot be reached"):
        fetch.get("http://127.0.0.1:9/rss/cs.CL")

"""Progress of a day's summaries, a paper's languages, and requests for a summary."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from webapp.core import tasks
from webapp.papers.models import Announcement, Listing, Paper
from webapp.summaries.models import Claim, Summary

pytestmark = pytest.mark.django_db

DAY = date(2026, 3, 12)
PAGE = "/summaries/2026-03-12/"


@pytest.fixture(autouse=True)
def _model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "small")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")


@pytest.fixture
def papers() -> list[Paper]:
    when = datetime(2026, 3, 12, tzinfo=UTC)
    listing = Listing.objects.create(
        category="cs.LG", date=DAY, state="complete", polled_at=when, changed_at=when
    )
    made = []
    for number in range(4):
        paper = Paper.objects.create(
            arxiv_id=f"2603.0000{number}",
            title=f"Paper {number} <b>",
            abstract="It is 2 times faster.",
            primary_category="cs.LG",
        )
        Announcement.objects.create(listing=listing, paper=paper, type="new", version=1)
        made.append(paper)
    return made


def summary(paper: Paper, state: str, **more: Any) -> Summary:
    fields = {"version": 1, "prompt_version": "1", "model": "small", "language": "en"} | more
    return Summary.objects.create(paper=paper, state=state, **fields)


def text(client: Client, address: str = PAGE, **headers: str) -> str:
    response = client.get(address, **headers)
    assert response.status_code in {200, 286}
    return response.content.decode()


def test_a_day_says_how_far_it_is(client: Client, papers: list[Paper]) -> None:
    summary(papers[0], "done", gist="It is <i>faster</i>.", unverified=2)
    summary(papers[1], "failed", reason="the server refused the key")
    soon = timezone.now() + timedelta(hours=2)
    summary(papers[2], "waiting", reason="the day's budget is spent", not_before=soon)
    summary(papers[3], "running")
    page = text(client)
    assert '<b class="num">2</b> of <b class="num">4</b> are done:' in page
    assert "Delayed: the day&#x27;s budget is spent" in page
    assert "It is &lt;i&gt;faster&lt;/i&gt;." in page
    assert "2 not found in its text" in page
    assert "the server refused the key" in page
    assert "Try again" not in page  # to somebody who is not signed in
    assert "htmx" in page


def test_the_newest_counts_and_an_earlier_failure_does_not(
    client: Client, papers: list[Paper]
) -> None:
    summary(papers[0], "failed", version=1)
    summary(papers[0], "done", version=2)
    assert '<b class="num">1</b> of <b class="num">1</b> are done:' in text(client)


def test_htmx_gets_the_part_that_changes_and_stops_at_the_end(
    client: Client, papers: list[Paper]
) -> None:
    row = summary(papers[0], "running")
    live = client.get(PAGE, headers={"HX-Request": "true"})
    assert (live.status_code, live["Cache-Control"]) == (200, "no-store")
    assert "<html" not in live.content.decode()
    assert 'hx-trigger="every 5s"' in live.content.decode()
    Summary.objects.filter(pk=row.pk).update(state="done")
    ended = client.get(PAGE, headers={"HX-Request": "true"})
    assert ended.status_code == 286
    assert "hx-get" not in ended.content.decode()


@pytest.mark.parametrize(("model", "words"), [("small", "No summary yet"), ("", "No model")])
def test_an_empty_day_says_why(
    client: Client, monkeypatch: pytest.MonkeyPatch, model: str, words: str
) -> None:
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", model)
    assert words in text(client)


def test_pages_and_queries_stay_few(
    client: Client, papers: list[Paper], django_assert_max_num_queries: Any
) -> None:
    for number in range(120):
        summary(papers[0], "done", model=f"m{number}")
        summary(papers[number % 4], "done", language="zh", version=number + 1)
    with django_assert_max_num_queries(4):
        page = text(client, PAGE + "?page=99")
    assert "中文" in page


class TestPaper:
    def test_it_offers_the_languages_it_has(self, client: Client, papers: list[Paper]) -> None:
        address = reverse("papers:paper", args=[papers[0].arxiv_id])
        done = {"state": "done", "finished_at": timezone.now(), "text_source": "html"}
        summary(papers[0], gist_html="In English.", **done)
        summary(papers[0], language="zh", gist_html="用中文。", **done)
        assert "In English." in text(client, address)
        chinese = text(client, address + "?language=zh")
        assert "用中文。" in chinese
        assert "In English." not in chinese
        assert "In English." in text(client, address + "?language=../etc")

    def test_the_only_language_is_shown_unasked(self, client: Client, papers: list[Paper]) -> None:
        done = {"state": "done", "finished_at": timezone.now(), "text_source": "html"}
        summary(papers[0], language="zh", gist_html="用中文。", **done)
        assert "用中文。" in text(client, reverse("papers:paper", args=[papers[0].arxiv_id]))

    @pytest.mark.parametrize(("sent", "kept"), [("zh", "zh"), ("", "en"), ("fr", "en")])
    def test_a_reader_asks_in_a_language(
        self, client: Client, papers: list[Paper], sent: str, kept: str
    ) -> None:
        client.force_login(User.objects.create_user("ada"))
        summary(papers[0], "failed", language=kept, prompt_version="old")
        address = reverse("summaries:ask", args=[papers[0].arxiv_id])
        response = client.post(address, {"language": sent})
        assert response["Location"].endswith(f"?language={kept}#summary")
        assert Summary.objects.get(state="waiting").language == kept

    def test_what_is_asked_for_waits_for_no_beat(
        self, client: Client, papers: list[Paper], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent: list[object] = []
        monkeypatch.setattr(tasks, "send", lambda *task, lost: sent.append(task))
        client.force_login(User.objects.create_user("ada"))
        client.post(reverse("summaries:ask", args=[papers[0].arxiv_id]))
        assert sent == [("site.summaries", [])]

    @pytest.mark.parametrize(
        ("state", "near", "words"),
        [
            ("number and unit", True, "Number and unit found in the text."),
            ("number only", True, "Unit not written"),
            ("not found", True, "Not found"),
            ("number and unit", False, "is the model’s interpretation"),
        ],
    )
    def test_it_words_the_state_of_a_claim(
        self, client: Client, papers: list[Paper], state: str, near: bool, words: str
    ) -> None:
        done = {"state": "done", "finished_at": timezone.now(), "text_source": "html"}
        Claim.objects.create(
            summary=summary(papers[0], **done),
            position=0,
            metric="speed",
            value="3.5",
            unit="×",
            direction="higher",
            quote="It is 3.5× faster.",
            state=state,
            metric_near=near,
            direction_near=near,
            reason="the quote does not stand in the text",
        )
        page = text(client, reverse("papers:paper", args=[papers[0].arxiv_id]))
        assert words in " ".join(page.replace("<strong>", "").replace("</strong>", "").split())

    def test_a_waiting_summary_says_what_it_waits_for(
        self, client: Client, papers: list[Paper]
    ) -> None:
        address = reverse("papers:paper", args=[papers[1].arxiv_id])
        own = summary(papers[1], "waiting")
        assert "Waiting for the worker that makes summaries" in text(client, address)
        summary(papers[0], "running")
        assert "Next in the queue." in text(client, address)
        Summary.objects.filter(pk=own.pk).update(reason="today’s 200 requests are used up")
        assert "Waiting: today’s 200 requests are used up." in text(client, address)

    def test_a_failed_summary_says_why_and_how_to_retry(
        self, client: Client, papers: list[Paper]
    ) -> None:
        summary(papers[0], "failed", reason="the model refused the key (401)")
        address = reverse("papers:paper", args=[papers[0].arxiv_id])
        page = text(client, address)
        assert "The summary failed: the model refused the key (401)." in page
        assert "to try again" in page
        client.force_login(User.objects.create_user("ada"))
        assert "Try again" in text(client, address)

    def test_without_a_summary_the_numbers_of_the_abstract_are_shown(
        self, client: Client, papers: list[Paper]
    ) -> None:
        abstract = "We prune tokens. Latency falls from 38 ms to 16 ms on one GPU, of 24 GB."
        Paper.objects.filter(pk=papers[0].pk).update(abstract=abstract, abstract_html=abstract)
        page = client.get(reverse("papers:paper", args=[papers[0].arxiv_id])).content.decode()
        assert "“Latency falls <b>from 38 ms to 16 ms</b> on one GPU, of 24 GB.”" in page
        assert "from 38 ms to 16 ms</mark> on one GPU, of 24 GB." in page

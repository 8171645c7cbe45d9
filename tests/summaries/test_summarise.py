"""From waiting to done or failed, over HTTP, against servers of arXiv's pages and of a model."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_httpserver import HTTPServer

from tests.servers.openai import OpenAIServer
from tests.summaries.conftest import HTML
from webapp.papers.models import Paper
from webapp.summaries import budget, queue
from webapp.summaries.client import Server
from webapp.summaries.models import Claim, FullText, ModelCall, Summary
from webapp.summaries.summarise import summarise

pytestmark = pytest.mark.django_db(transaction=True)


def summarised(paper: Paper) -> Summary:
    """Ask for a summary and run it; its row afterwards."""
    server = Server.configured()
    assert server is not None
    queue.request([paper], "en", server)
    for summary_id in queue.ready():
        summarise(summary_id)
    return Summary.objects.latest("id")


def test_a_good_answer_becomes_a_summary_whose_claims_are_verified(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    summary = summarised(paper)
    assert (summary.state, summary.reason) == ("done", "")
    assert (summary.text_source, summary.text_share) == ("html", 1.0)
    assert "<h3>Results</h3>" in summary.html
    assert "<table>" in summary.html
    assert summary.gist.startswith("The paper reports")
    claims = list(summary.claims.all())
    assert len(claims) >= 3
    assert all(c.state == c.State.UNIT and not c.in_doubt for c in claims)
    text = FullText.objects.get()
    assert [s["title"] for s in text.sections] == ["Abstract", "1 Introduction", "2 Results"]
    assert "555.5" not in text.text
    assert "$O(n^{2})$" in text.text
    assert "ours | 79.66 |" in text.text
    calls = ModelCall.objects.all()
    assert all(c.settled for c in calls)


def test_a_summary_is_made_once(arxiv: HTTPServer, model: OpenAIServer, paper: Paper) -> None:
    first = summarised(paper)
    again = summarised(paper)
    assert first.id == again.id
    assert model.summaries_asked == 1
    assert summarise(first.id) == "not taken"


@pytest.mark.parametrize("scenario", ["invented_number", "invented_quote"])
def test_what_a_model_invents_is_never_shown_as_verified(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, scenario: str
) -> None:
    model.scenario = scenario
    summary = summarised(paper)
    assert summary.state == "done"
    assert summary.claims.exists()
    assert not summary.claims.exclude(state="not found").exists()
    assert summary.unverified >= summary.claims.count()
    if scenario == "invented_number":
        assert '<mark class="unverified" title=' in summary.html
        assert ">987.65</mark>" in summary.gist_html


@pytest.mark.parametrize("scenario", ["scripts", "markdown_bomb"])
def test_nothing_unsanitised_is_kept_for_a_page(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, scenario: str
) -> None:
    model.scenario = scenario
    summary = summarised(paper)
    assert summary.state == "done"
    for html in (summary.html, summary.gist_html):
        assert "<script" not in html
        assert "<img" not in html
        assert "href" not in html


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("401", "refused the key"),
        ("404", "no such model"),
        ("422", "rejected the request"),
        ("truncated", "cannot be used"),
        ("wrong_types", "cannot be used"),
        ("empty", "it is empty"),
        ("refusal", "cannot be used"),
        ("obedient", "cannot be used"),
        ("huge", "longer than 2 MB"),
    ],
)
def test_a_failure_has_its_reason_and_can_be_retried(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, scenario: str, reason: str
) -> None:
    model.scenario = scenario
    summary = summarised(paper)
    assert summary.state == "failed"
    assert reason in summary.reason
    assert not Claim.objects.exists()
    model.scenario = "good"
    assert queue.retry(Summary.objects.all()) == 1
    assert queue.retry(Summary.objects.all()) == 0
    assert summarised(paper).state == "done"


def test_a_busy_server_is_asked_again_when_it_wants_to_be(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    model.scenario = "429"
    began = timezone.now()
    summary = summarised(paper)
    assert summary.state == "waiting"
    assert "429" in summary.reason
    assert summary.not_before is not None
    assert summary.not_before > began + timedelta(seconds=4)
    assert summary.not_before <= timezone.now() + timedelta(seconds=7)
    assert queue.ready() == []
    for _ in range(queue.MAX_ATTEMPTS - 1):
        Summary.objects.update(not_before=None)
        summary = summarised(paper)
    assert summary.state == "failed"
    assert "tried 4 times" in summary.reason


def test_one_paper_s_failure_touches_no_other(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    arxiv.expect_request("/html/2512.00002v1").respond_with_data(HTML, content_type="text/html")
    bad = Paper.objects.create(
        arxiv_id="2512.00002", title="A cursed paper", abstract="x", primary_category="cs.LG"
    )
    model.by_title = {"A cursed paper": "empty"}
    server = Server.configured()
    assert server is not None
    queue.request([bad, paper], "en", server)
    for summary_id in queue.ready():
        summarise(summary_id)
    states = dict(Summary.objects.values_list("paper__arxiv_id", "state"))
    assert states == {"2512.00001": "done", "2512.00002": "failed"}


def test_without_html_and_pdf_the_abstract_is_read_and_said_so(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    arxiv.clear()
    arxiv.expect_request("/html/2512.00001v1").respond_with_data("no", status=404)
    arxiv.expect_request("/pdf/2512.00001v1").respond_with_data(b"%PDF-1.4 broken")
    summary = summarised(paper)
    assert (summary.state, summary.text_source) == ("done", "abstract")
    text = FullText.objects.get()
    assert "no HTML" in text.reason
    assert "no PDF" in text.reason


def test_arxiv_out_of_reach_leaves_the_abstract_and_keeps_no_text(
    model: OpenAIServer, paper: Paper, settings: Any
) -> None:
    settings.ARXIV_SITE_URL, settings.ARXIV_SECONDS = "http://127.0.0.1:9", 0
    summary = summarised(paper)
    assert (summary.state, summary.text_source) == ("done", "abstract")
    assert not FullText.objects.exists()  # the whole text may be had another time
    asked = model.requests[-1]["messages"][1]["content"]
    assert "The paper's text (the abstract) stands between" in asked


def test_only_the_beginning_of_a_long_paper_is_given_and_said_so(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, settings: Any
) -> None:
    settings.SUMMARY_CHARACTERS = 1000
    summary = summarised(paper)
    assert summary.state == "done"
    assert 0.3 < summary.text_share < 0.9
    asked = model.requests[-1]["messages"][1]["content"]
    assert f"the first {summary.text_share:.0%} of the full text (HTML)" in asked


def test_the_day_s_budget_holds(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, settings: Any
) -> None:
    settings.SUMMARY_DAILY_CALLS = 0
    began = timezone.now()
    summary = summarised(paper)
    assert summary.state == "waiting"
    assert "used up" in summary.reason
    assert summary.not_before is not None
    tomorrow = {now.date() + timedelta(days=1) for now in (began, timezone.now())}
    assert summary.not_before.date() in tomorrow
    assert budget.spent_today() == (0, 0)


def test_a_lost_worker_s_summary_runs_again(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    server = Server.configured()
    assert server is not None
    queue.request([paper], "en", server)
    lost = queue.take(queue.ready()[0], most=3)
    assert lost is not None
    assert queue.take(lost.id, most=3) is None
    assert queue.sweep() == 0
    Summary.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    assert queue.sweep() == 1
    assert summarised(paper).state == "done"
    # The lost worker comes back: its lease is gone, and so is its word.
    assert not queue.finish(lost, Summary.State.FAILED, "late")
    assert Summary.objects.get().state == "done"


def test_concurrency_is_bounded(arxiv: HTTPServer, model: OpenAIServer, paper: Paper) -> None:
    other = Paper.objects.create(
        arxiv_id="2512.00003", title="Another", abstract="y", primary_category="cs.LG"
    )
    server = Server.configured()
    assert server is not None
    queue.request([paper, other], "en", server)
    first, second = queue.ready()
    assert queue.take(first, most=1) is not None
    assert queue.take(second, most=1) is None


def test_a_replaced_version_is_not_summarised(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    server = Server.configured()
    assert server is not None
    queue.request([paper], "en", server)
    Paper.objects.update(version=2)
    summarise(queue.ready()[0])
    assert "replaced" in Summary.objects.get().reason
    assert model.requests == []

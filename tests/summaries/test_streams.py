"""Answers that are streamed: what is a silence, how far one is, and what ends one before its end.

An outage costs nothing: no attempt, no request and no token of the day.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_httpserver import HTTPServer

from tests.processes import free_port, wait_for
from tests.servers.openai import OpenAIServer
from tests.summaries.test_answer import TEXT, asked
from tests.summaries.test_summarise import summarised
from webapp.papers.models import Paper
from webapp.summaries import budget, client, queue
from webapp.summaries.client import BusyError, Server
from webapp.summaries.models import ModelCall, Summary
from webapp.summaries.summarise import summarise

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    client._refused_by.clear()


def in_a_thread(summary_id: int) -> threading.Thread:
    """Make one summary beside the test."""

    def run() -> None:
        summarise(summary_id)
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("streams", ["yes", "comments", "ignored", "refused", "no options"])
def test_an_answer_is_the_same_however_a_server_streams(streams: str) -> None:
    with OpenAIServer() as whole, OpenAIServer(streams=streams) as server:
        whole.streams = "ignored"
        assert asked(server) == asked(whole)
        before = len(server.requests)
        asked(server)
        assert len(server.requests) == before + 1  # what it refuses is remembered
    assert ("stream" in server.requests[-1]) == (streams != "refused")


def test_the_tokens_of_a_stream_are_the_server_s(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    summarised(paper)
    call = ModelCall.objects.latest("id")
    assert call.settled
    assert call.tokens_in == sum(len(m["content"]) for m in model.requests[-1]["messages"]) // 4


def test_a_slow_writer_is_not_silent(settings: Any) -> None:
    settings.SUMMARY_SILENCE = 4.0
    with OpenAIServer(pause=0.4) as server:
        before = time.monotonic()
        assert asked(server).claims
        assert time.monotonic() - before > 4.5


def test_a_stream_that_hangs_is_silent(settings: Any) -> None:
    settings.SUMMARY_SILENCE = 0.5
    with (
        OpenAIServer(streams="hangs") as server,
        pytest.raises(BusyError, match="did not answer for 0"),
    ):
        asked(server)


@pytest.mark.parametrize(
    ("streams", "words"), [("cut", "broke off"), ("error", "500: the GPU fell off")]
)
def test_a_stream_that_ends_in_the_middle_says_why(streams: str, words: str) -> None:
    with OpenAIServer(streams=streams) as server, pytest.raises(BusyError, match=words):
        asked(server)


def test_ten_streamed_megabytes_are_not_read_to_their_end() -> None:
    with OpenAIServer("huge") as server, pytest.raises(client.ModelError, match="longer than 2 MB"):
        asked(server)
    assert server.pieces < 2_000


def test_the_page_says_how_far_an_answer_is_and_a_reader_cancels_it(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, client: Client
) -> None:
    summarised(paper)  # probes, and the text
    Summary.objects.all().delete()
    client.force_login(User.objects.create_user("ada"))
    model.pause = 0.25
    server = Server.configured()
    assert server is not None
    queue.request([paper], "en", server)
    row = Summary.objects.get()
    writer = in_a_thread(row.pk)
    wait_for(lambda: Summary.objects.get().written > 0, "the first tokens")
    page = client.get(f"/papers/{paper.arxiv_id}/").content.decode()
    assert "The model is writing:" in page
    assert ">Cancel</button>" in page
    answer = client.post(f"/summaries/{paper.arxiv_id}/cancel", {"language": "en"})
    assert answer.status_code == 302
    writer.join()
    assert not writer.is_alive()
    assert model.left.wait()  # the server was hung up on: it need not go on
    row.refresh_from_db()
    assert (row.state, row.reason) == ("failed", "cancelled by ada")
    assert "cancelled by ada" in client.get(f"/papers/{paper.arxiv_id}/").content.decode()


def test_the_day_s_tokens_end_an_answer_that_goes_on(
    arxiv: HTTPServer,
    model: OpenAIServer,
    paper: Paper,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summarised(paper)
    Summary.objects.all().delete()
    monkeypatch.setattr(budget, "SECONDS_BETWEEN", 0.0)
    sent = sum(len(m["content"]) for m in model.requests[-1]["messages"]) // 3
    settings.SUMMARY_DAILY_TOKENS = sent + sent // 10 + 2
    model.scenario = "long_gist"
    model.given = '{"gist": "' + "word " * sent * 20
    model.pause = 0.001
    row = summarised(paper)
    assert (row.state, row.attempt) == ("waiting", 0)
    assert "tokens are used up" in row.reason
    assert model.left.wait()


def test_a_server_that_is_not_there_costs_nothing_and_is_taken_up_again(
    arxiv: HTTPServer, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "small")
    other = Paper.objects.create(
        arxiv_id="2512.00009", title="Another", abstract="y", primary_category="cs.LG"
    )
    configured = Server.configured()
    assert configured is not None
    queue.request([other], "en", configured)
    for _ in range(6):  # more than the attempts that a failure has
        began = timezone.now()
        row = summarised(paper)
        assert (row.state, row.attempt) == ("waiting", 0)
        assert "cannot be reached" in row.reason
        # The others wait with it, and none is tried.
        assert not Summary.objects.exclude(not_before__gt=began).exists()
        Summary.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    assert budget.spent_today() == (0, 0)
    with OpenAIServer().start(port):
        assert summarised(paper).paper_id in {paper.pk, other.pk}
        assert Summary.objects.get(paper=paper).state == "done"


def test_a_model_that_is_still_loaded_costs_nothing(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    model.scenario = "loading model"
    for _ in range(6):
        row = summarised(paper)
        assert (row.state, row.attempt) == ("waiting", 0)
        assert "still loads its model" in row.reason
        Summary.objects.update(not_before=None)
    assert budget.spent_today() == (0, 0)
    model.scenario = "good"
    assert summarised(paper).state == "done"


def test_what_a_probe_costs_counts(arxiv: HTTPServer, model: OpenAIServer, paper: Paper) -> None:
    summarised(paper)
    assert len(model.requests) > 1
    assert budget.spent_today()[0] == len(model.requests)


def test_a_summary_carries_the_model_that_wrote_it(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_of = Server.configured()
    assert asked_of is not None
    queue.request([paper], "en", asked_of)
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "other")
    summarise(queue.ready()[0])
    row = Summary.objects.get()
    assert (row.state, row.model) == ("done", "other")
    assert {request["model"] for request in model.requests} == {"other"}


def test_what_another_model_has_summarised_already_is_not_written_twice(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    summarised(paper)
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "other")
    server = Server.configured()
    assert server is not None
    queue.request([paper], "en", server)
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "small")
    before = len(model.requests)
    assert summarise(queue.ready()[0]) == "not taken"
    assert len(model.requests) == before
    assert Summary.objects.get().model == "small"


def test_a_paper_is_summarised_again_by_the_model_that_is_connected_now(
    arxiv: HTTPServer,
    model: OpenAIServer,
    paper: Paper,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summarised(paper)
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "other")
    client.force_login(User.objects.create_user("ada"))
    address = f"/papers/{paper.arxiv_id}/"
    assert "Summarise again with other" in client.get(address).content.decode()
    client.post(f"/summaries/{paper.arxiv_id}/ask", {"language": "en", "again": "1"})
    for summary_id in queue.ready():
        summarise(summary_id)
    page = client.get(address).content.decode()
    assert '<b class="num">other</b>' in page
    client.post(f"/summaries/{paper.arxiv_id}/ask", {"language": "en", "again": "1"})
    assert [row.model for row in Summary.objects.filter(state="waiting")] == ["other"]


def test_text_is_what_the_stream_said() -> None:
    with OpenAIServer("prose") as server:
        reply = Server(server.url, "small", "").ask(
            [{"role": "user", "content": f"json\n{'=' * 20}\n{TEXT}\n{'=' * 20}"}]
        )
    assert reply.text.startswith("Sure! Here it is:")
    assert reply.text.endswith("OK?")

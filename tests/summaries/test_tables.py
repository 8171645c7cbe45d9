"""From arXiv's HTML over HTTP to the tables on a paper's page, and why there are none."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from webapp.claims.models import PaperTable, TableReading
from webapp.papers.models import Paper
from webapp.summaries import fulltext
from webapp.summaries.models import FullText

pytestmark = pytest.mark.django_db

FORMS = (Path(__file__).parents[1] / "claims/tables/forms.html").read_text()
PAGE = f"<html><body>{FORMS.replace('</article>', '<p>' + 'Words. ' * 200 + '</p></article>')}"


@pytest.fixture
def heron(httpserver: HTTPServer, settings: Any) -> Paper:
    settings.ARXIV_SITE_URL = httpserver.url_for("").rstrip("/")
    settings.ARXIV_SECONDS = 0
    return Paper.objects.create(
        arxiv_id="2512.00002",
        title="Heron: chosen blocks",
        abstract="We propose Heron. It is fast.",
        primary_category="cs.LG",
    )


def test_tables_of_a_paper_stand_on_its_page(
    heron: Paper, httpserver: HTTPServer, client: Client
) -> None:
    httpserver.expect_oneshot_request("/html/2512.00002v1").respond_with_data(PAGE)
    before = client.get("/papers/2512.00002/").content.decode()
    assert "Main table</h2>" not in before
    assert fulltext.read_some_tables([heron.pk]) == 1
    page = client.get("/papers/2512.00002/").content.decode()
    assert "Main table</h2>" in page
    main = page.split("Main table</h2>")[1].split("</figure>")[0]
    assert '<tr class="own">' in main
    own = main.split('<tr class="own">')[1].split("</tr>")[0]
    assert "Heron (ours)" in own
    assert "<b>43.5±0.2</b>" in own
    assert '<th colspan="2"><span>GSM8K</span></th>' in main
    assert "https://arxiv.org/html/2512.00002v1#S0.T1" in main
    assert "6 more tables" in page
    httpserver.check()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("status", [200, 404])
def test_a_paper_that_goes_while_arxiv_answers_waits_for_nothing(
    heron: Paper, httpserver: HTTPServer, status: int
) -> None:
    def answer(_: Request) -> Response:
        with ThreadPoolExecutor(1) as pool:  # real papers replace the sample, in another process
            pool.submit(_remove, heron.pk).result()
        return Response(PAGE, status)

    httpserver.expect_request("/html/2512.00002v1").respond_with_handler(answer)
    assert fulltext.read_some_tables([heron.pk]) == 0
    assert not TableReading.objects.exists()
    assert not FullText.objects.exists()


def _remove(key: int) -> None:
    Paper.objects.filter(pk=key).delete()
    connection.close()


def test_the_text_is_kept_with_the_tables_and_neither_is_fetched_again(
    heron: Paper, httpserver: HTTPServer
) -> None:
    httpserver.expect_oneshot_request("/html/2512.00002v1").respond_with_data(PAGE)
    text = fulltext.full_text(heron)  # a summary was asked for first
    assert "| Method | GSM8K / 0-shot |" in text.text
    fulltext.read_tables(heron)
    assert fulltext.read_some_tables([heron.pk]) == 0
    assert FullText.objects.count() == TableReading.objects.count() == 1
    httpserver.check()


WHY_NONE = {
    "no HTML: ": (("not there", 404), "This paper has no HTML version."),
    "no HTML: the HTML page holds no paper": (("<p>short</p>", 200), "has no HTML version."),
    "its HTML has no table": (
        (f"<article><p>{'Words. ' * 200}</p></article>", 200),
        "No table could be read from its HTML version.",
    ),
}


@pytest.mark.parametrize("reason", WHY_NONE)
def test_why_there_are_no_tables(
    heron: Paper, httpserver: HTTPServer, client: Client, reason: str
) -> None:
    answer, told = WHY_NONE[reason]
    httpserver.expect_request("/html/2512.00002v1").respond_with_data(*answer)
    fulltext.read_tables(heron)
    assert TableReading.objects.get().reason.startswith(reason)
    page = client.get("/papers/2512.00002/").content.decode()
    assert told in page
    assert "404" not in page
    assert fulltext.read_some_tables([heron.pk]) == 0, "it is asked once"


def test_arxiv_out_of_reach_leaves_nothing_behind(heron: Paper, settings: Any) -> None:
    settings.ARXIV_SITE_URL = "http://127.0.0.1:9"
    assert fulltext.read_some_tables([heron.pk]) == 0
    assert not TableReading.objects.exists()


def test_a_new_version_is_read_again_and_shown(
    heron: Paper, httpserver: HTTPServer, client: Client
) -> None:
    httpserver.expect_request("/html/2512.00002v1").respond_with_data(PAGE)
    newer = PAGE.replace("46.3", "47.9")
    httpserver.expect_request("/html/2512.00002v2").respond_with_data(newer)
    fulltext.read_tables(heron)
    Paper.objects.update(version=2)
    fulltext.read_some_tables([heron.pk])
    page = client.get("/papers/2512.00002/").content.decode()
    assert "47.9 (+1.3)" in page
    assert "46.3 (+1.3)" not in page


def test_what_a_table_says_is_escaped(heron: Paper, httpserver: HTTPServer, client: Client) -> None:
    hostile = PAGE.replace("Lark", "&lt;script&gt;alert(1)&lt;/script&gt;")
    httpserver.expect_request("/html/2512.00002v1").respond_with_data(hostile)
    fulltext.read_tables(heron)
    page = client.get("/papers/2512.00002/").content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_reader_asks_for_tables_and_a_stranger_cannot(heron: Paper, client: Client) -> None:
    address = "/summaries/2512.00002/tables"
    assert client.post(address).status_code == 302
    assert "sign-in" in client.post(address)["Location"]
    client.force_login(User.objects.create_user("ada"))
    assert "Read the tables of this paper" in client.get("/papers/2512.00002/").content.decode()
    assert client.post(address)["Location"] == "/papers/2512.00002/"


def test_stored_tables_survive_a_dump(heron: Paper, httpserver: HTTPServer, tmp_path: Path) -> None:
    """`packed` keeps all that a page shows: the same table comes back from JSON."""
    httpserver.expect_request("/html/2512.00002v1").respond_with_data(PAGE)
    fulltext.read_tables(heron)
    call_command("dumpdata", "claims", output=str(tmp_path / "claims.json"))
    assert len(json.loads((tmp_path / "claims.json").read_text())) == 1 + 7
    assert PaperTable.objects.first().cells[0][0] == "Method"  # type: ignore[union-attr]


def test_tables_that_are_read_anew_bring_their_text_anew(
    heron: Paper, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/html/2512.00002v1").respond_with_data(PAGE)
    fulltext.read_tables(heron)
    FullText.objects.update(sections=[{"title": "Results", "text": "It reaches 851."}])
    TableReading.objects.all().delete()
    assert fulltext.read_some_tables([heron.pk]) == 1
    assert "851" not in FullText.objects.get().text

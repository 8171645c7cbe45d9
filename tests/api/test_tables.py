"""Tables and quantities: the API and its tools give what the pages show."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from tests import factories
from webapp.claims.tables.store import store_tables
from webapp.papers.models import Paper
from webapp.summaries import fulltext

pytestmark = pytest.mark.django_db

FORMS = (Path(__file__).parents[1] / "claims/tables/forms.html").read_text()
QUANTITY = {"benchmark": "GSM8K", "metric": "accuracy"}


def add(number: str, title: str, page: str = FORMS) -> Paper:
    paper = Paper.objects.create(
        arxiv_id=number, title=title, abstract="It is fast.", primary_category="cs.LG"
    )
    store_tables(paper, 1, page.encode())
    return paper


@pytest.fixture
def two() -> None:
    add("2512.00002", "Heron: chosen blocks")
    add("2512.00003", "Lark: nests", FORMS.replace("41.2", "40.1"))


def page_of(client: Client, address: str, **query: str) -> str:
    return unescape(client.get(address, query).content.decode())


def told(client: Client, path: str, **query: str) -> Any:
    return client.get(f"/api/v1{path}", query).json()


@pytest.mark.usefixtures("two")
def test_every_number_of_a_papers_tables_is_given_with_its_cell(client: Client) -> None:
    answer = told(client, "/papers/2512.00002/tables")
    page = page_of(client, "/papers/2512.00002/")
    assert answer["paper"] == "2512.00002"
    assert [table["main"] for table in answer["tables"]] == [True] + [False] * 6
    for table in answer["tables"]:
        for value in table["values"]:
            cell = re.search(rf'<td[^>]*id="{value["cell"]}".*?</td>', page, re.S)
            assert cell
            assert value["text"] in cell[0]
            asked = value["quantity"]
            assert ("/quantities/?" in cell[0]) == (asked is not None)
    (best,) = [v for v in answer["tables"][0]["values"] if v["text"] == "43.5±0.2"]
    assert best["row_label"] == ["with a chosen budget", "Heron (ours)"]
    assert (best["own"], best["best"]) == (True, True)
    named = {"subject": "Heron (ours)", "setting": "with a chosen budget, 0-shot"}
    assert best["quantity"] == QUANTITY | named
    assert best["link"].startswith("https://arxiv.org/html/2512.00002v1#")
    assert '<tr class="own">' in page


@pytest.mark.usefixtures("two")
def test_quantities_are_listed_and_filtered_as_on_their_page(client: Client) -> None:
    listed = told(client, "/quantities")
    page = page_of(client, "/quantities/")
    assert listed["count"] == page.count("<td>accuracy</td>") == 2
    assert told(client, "/quantities", q="gsm")["items"] == [QUANTITY | {"papers": 2, "values": 12}]
    for query in ({}, {"own": "1"}, {"order": "best"}, {"q": "dense"}, {"q": "dense", "own": "1"}):
        asked = {"own_only" if name == "own" else name: value for name, value in query.items()}
        values = told(client, "/quantities/values", **QUANTITY, **asked)
        shown = page_of(client, "/quantities/", **QUANTITY, **query)
        cells = re.findall(
            r'<td class="num">\s*<a href="/papers/([\d.]+)/#([\w-]+)">([^<]+)', shown
        )
        given = [(v["paper"]["id"], v["cell"], v["text"]) for v in values["items"]]
        assert given == cells
        assert values["count"] == len(cells)
    assert told(client, "/quantities/values", **QUANTITY, q="zebra")["items"] == []
    assert client.get("/api/v1/quantities/values?benchmark=GSM8K").status_code == 422


@pytest.mark.usefixtures("two")
def test_a_baseline_reported_differently_names_the_other_papers_cell(client: Client) -> None:
    values = told(client, "/quantities/values", **QUANTITY, q="dense")["items"]
    here = next(v for v in values if v["text"] == "41.2")
    assert here["elsewhere"] == [{"text": "40.1", "paper": "2512.00003", "cell": "table-1-2-1"}]
    page = page_of(client, "/quantities/", **QUANTITY)
    assert '<a href="/papers/2512.00003/#table-1-2-1">40.1</a>' in page
    assert 'id="table-1-2-1"' in page_of(client, "/papers/2512.00003/")


def test_a_repository_that_only_the_full_text_names_is_seen_everywhere(
    client: Client, httpserver: HTTPServer, settings: Any
) -> None:
    settings.ARXIV_SITE_URL, settings.ARXIV_SECONDS = httpserver.url_for("").rstrip("/"), 0
    paper = factories.make_paper(
        4, title="Zebra blocks", abstract="It is fast.", announced_on=factories.DAY
    )
    offer = "<p>Our code is available at https://github.com/heron/blocks.</p><p>" + "Words. " * 200
    body = f"<html><body>{FORMS.replace('</article>', offer + '</p></article>')}"
    httpserver.expect_oneshot_request("/html/2603.00004v1").respond_with_data(body)
    assert "github.com/heron" not in page_of(client, "/papers/2603.00004/")
    fulltext.read_tables(paper)
    link = 'href="https://github.com/heron/blocks"'
    assert link in page_of(client, "/papers/2603.00004/")
    assert link in page_of(client, "/search", q="zebra")
    assert link in page_of(client, "/search.rss", q="zebra")
    assert told(client, "/papers/2603.00004")["repository"] == "https://github.com/heron/blocks"
    (found,) = told(client, "/papers", q="zebra")["items"]
    assert found["repository"] == "https://github.com/heron/blocks"


def test_the_best_of_a_column_where_it_is_known_which_way_is_better(client: Client) -> None:
    """In each block, and none where the paper sets another value in bold than the greatest."""
    rows = (
        ("Method", "PPL", "Acc. ↑", "Size"),
        ("Small models",),
        ("Wren", "5.0", "61", "1"),
        ("Tit", "4.0", "60", "2"),
        ("Large models",),
        ("Heron", "3.0", "71", "3"),
        ("Crane", "2.0", "<b class='ltx_font_bold'>70</b>", "4"),
    )
    body = "".join(
        "<tr class='ltx_tr'>"
        + "".join(
            f"<td class='ltx_td' colspan='{4 if len(row) == 1 else 1}'>{text}</td>" for text in row
        )
        + "</tr>"
        for row in rows
    )
    add("2512.00011", "Nests", f"<table class='ltx_tabular'>{body}</table>")
    (table,) = told(client, "/papers/2512.00011/tables")["tables"]
    assert {v["text"] for v in table["values"] if v["best"]} == {"4.0", "2.0"}
    page = page_of(client, "/papers/2512.00011/")
    assert re.findall(r'class="best">\s*<\w+>([\d.]+)', page) == ["4.0", "2.0"]

"""Tables: the API and its tools give what the pages show."""

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


def add(number: str, title: str, page: str = FORMS) -> Paper:
    paper = Paper.objects.create(
        arxiv_id=number, title=title, abstract="It is fast.", primary_category="cs.LG"
    )
    store_tables(paper, 1, page.encode())
    return paper


def page_of(client: Client, address: str, **query: str) -> str:
    return unescape(client.get(address, query).content.decode())


def told(client: Client, path: str, **query: str) -> Any:
    return client.get(f"/api/v1{path}", query).json()


def test_every_number_of_a_papers_tables_is_given_with_its_cell(client: Client) -> None:
    add("2512.00002", "Heron: chosen blocks")
    answer = told(client, "/papers/2512.00002/tables")
    page = page_of(client, "/papers/2512.00002/")
    assert answer["paper"] == "2512.00002"
    assert [table["main"] for table in answer["tables"]] == [True] + [False] * 6
    for table in answer["tables"]:
        for value in table["values"]:
            cell = re.search(rf'<td[^>]*id="{value["cell"]}".*?</td>', page, re.S)
            assert cell
            assert value["text"] in cell[0]
    (best,) = [v for v in answer["tables"][0]["values"] if v["text"] == "43.5±0.2"]
    assert best["row_label"] == ["with a chosen budget", "Heron (ours)"]
    assert (best["own"], best["best"]) == (True, True)
    assert best["link"].startswith("https://arxiv.org/html/2512.00002v1#")
    assert '<tr class="own">' in page


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


def test_a_value_whose_row_is_not_sure_is_given_without_words(client: Client) -> None:
    rows = (("Method", "A", "B"), ("Wren", "1.5", "2.5"), ("", "3.5", "4.5"), ("Tit", "5.5", "6.5"))
    body = "".join(
        f"<tr class='ltx_tr'>{''.join(f'<td class=ltx_td>{text}</td>' for text in row)}</tr>"
        for row in rows
    )
    add("2512.00012", "Nests", f"<table class='ltx_tabular'>{body}</table>")
    (table,) = told(client, "/papers/2512.00012/tables")["tables"]
    labels = {value["text"]: (value["row_label"], value["head_path"]) for value in table["values"]}
    assert labels["1.5"] == (["Wren"], ["A"])
    assert labels["3.5"] == labels["4.5"] == ([], [])


def test_a_note_stands_raised_beside_its_number(client: Client) -> None:
    marks = Path(__file__).parents[1] / "claims/tables/marks.html"
    add("2512.00013", "Nests", marks.read_text())
    page = page_of(client, "/papers/2512.00013/")
    assert re.search(r">85 <sup>1</sup></span>", page)
    assert "851" not in page
    assert '<b class="coloured">88.1</b>' in page
    assert "[rgb]" not in page

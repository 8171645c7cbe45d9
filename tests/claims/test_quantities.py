"""One quantity over the papers that report it: page, CSV, feeds; from a number and back to it."""

from __future__ import annotations

import csv
import io
import re
from datetime import date
from pathlib import Path

import feedparser
import pytest
from django.core.management import call_command
from django.test import Client

from webapp.claims.models import ReportedValue
from webapp.claims.tables.store import store_tables
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db

FORMS = Path(__file__).with_name("tables") / "forms.html"
QUERY = "benchmark=GSM8K&metric=accuracy"


def add(number: str, title: str, page: str) -> Paper:
    paper = Paper.objects.create(
        arxiv_id=number, title=title, abstract="It is fast.", primary_category="cs.LG"
    )
    store_tables(paper, 1, page.encode())
    return paper


@pytest.fixture
def two() -> tuple[Paper, Paper]:
    """Two papers with the same table, of which the second gives the dense model another number."""
    page = FORMS.read_text()
    first = add("2512.00002", "Heron: chosen blocks", page)
    second = add("2512.00003", "Lark & <Heron>", page.replace("41.2", "40.1"))
    return first, second


def test_all_that_papers_report_of_a_quantity(two: tuple[Paper, Paper], client: Client) -> None:
    index = client.get("/quantities/").content.decode()
    assert index.count("<td>accuracy</td>") == 2
    page = client.get(f"/quantities/?{QUERY}").content.decode()
    assert "2 stored papers report it" in page
    assert page.count("Dense") == 4
    others = re.findall(r'elsewhere:\s*<a href="(.*?)">(.*?)</a>', page)
    assert sorted(others) == [
        ("/papers/2512.00002/#table-1-2-1", "41.2"),
        ("/papers/2512.00003/#table-1-2-1", "40.1"),
    ]
    assert "Lark &amp; &lt;Heron&gt;" in page
    best = client.get(f"/quantities/?{QUERY}&order=best").content.decode()
    assert best.index("46.3") < best.index("45.0") < best.index("41.2") < best.index("40.1")
    own = client.get(f"/quantities/?{QUERY}&own=1").content.decode()
    assert "Heron (ours)" in own
    assert "Dense" not in own


def test_from_a_number_to_its_quantity_and_back(two: tuple[Paper, Paper], client: Client) -> None:
    paper = client.get("/papers/2512.00002/").content.decode()
    assert '<a href="/quantities/?benchmark=GSM8K&amp;metric=accuracy"><b>43.5±0.2</b></a>' in paper
    page = client.get(f"/quantities/?{QUERY}").content.decode()
    assert '/papers/2512.00002/#table-1-5-1">43.5±0.2</a>' in page
    assert 'id="table-1-5-1"' in paper


def test_csv_and_feeds(two: tuple[Paper, Paper], client: Client) -> None:
    text = client.get(f"/quantities.csv?{QUERY}").content.decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 12
    assert {row["value"] for row in rows if row["own"] == "1"} >= {"43.5±0.2", "46.3 (+1.3)"}
    for suffix in ("rss", "atom"):
        feed = feedparser.parse(client.get(f"/quantities.{suffix}?{QUERY}").content)
        assert not feed.bozo
        assert [entry.title for entry in feed.entries] == [
            "Lark & <Heron>: Table 1",
            "Heron: chosen blocks: Table 1",
        ]
        assert "Dense (0-shot) 40.1" in feed.entries[0].summary
    answer = client.get(f"/quantities.rss?{QUERY}")
    again = client.get(f"/quantities.rss?{QUERY}", headers={"If-None-Match": answer["ETag"]})
    assert again.status_code == 304


def test_a_new_version_replaces_what_the_old_one_reported(
    two: tuple[Paper, Paper], client: Client
) -> None:
    page = client.get(f"/quantities/?{QUERY}").content.decode()
    store_tables(two[0], 2, FORMS.read_text().replace("41.2", "39.9").encode())
    page = client.get(f"/quantities/?{QUERY}").content.decode()
    assert "39.9" in page
    assert ReportedValue.objects.filter(paper=two[0], text="41.2").count() == 0


def test_kept_pages_and_feeds_follow_a_value_that_was_changed(
    two: tuple[Paper, Paper], client: Client
) -> None:
    addresses = (f"/quantities/?{QUERY}", f"/quantities.rss?{QUERY}", "/quantities/")
    before = [client.get(address).content for address in addresses]
    ReportedValue.objects.filter(paper=two[1], metric="accuracy", text="40.1").update(text="39.9")
    changed = [client.get(address).content.decode() for address in addresses]
    assert all("39.9" in body and "40.1" not in body for body in changed[:2])
    assert changed[2].encode() == before[2]
    two[0].delete()
    assert "Heron: chosen blocks" not in client.get(addresses[0]).content.decode()
    assert client.get(addresses[2]).content != before[2]


@pytest.mark.parametrize(
    "address",
    ["/quantities/?benchmark=GSM8K&metric=beauty", "/quantities.csv", "/quantities.rss?metric=x",
     "/quantities.csv?benchmark=nothing"],
)  # fmt: skip
def test_what_nobody_reports_is_not_found(
    two: tuple[Paper, Paper], client: Client, address: str
) -> None:
    assert client.get(address).status_code == 404


def test_without_a_table_the_page_says_so(client: Client) -> None:
    assert "No table has been read yet" in client.get("/quantities/").content.decode()
    assert "No quantity has this" in client.get("/quantities/?q=GSM").content.decode()


def test_a_spreadsheet_takes_no_field_for_a_formula(client: Client) -> None:
    add("2512.00004", "=1+1", FORMS.read_text())
    text = client.get(f"/quantities.csv?{QUERY}").content.decode()
    assert ",'=1+1," in text


def test_a_command_counts_what_several_papers_report(two: tuple[Paper, Paper]) -> None:
    def told(*options: str) -> str:
        out = io.StringIO()
        call_command("quantities", *options, stdout=out)
        return out.getvalue()

    Paper.objects.update(announced_on=date(2026, 3, 30))
    add("2512.00004", "Wren", FORMS.read_text())
    assert "2 papers, tables of 2 read, 2 quantities; 0 reported by 3 papers or more" in told()
    Paper.objects.filter(arxiv_id="2512.00004").update(announced_on=date(2026, 3, 1))
    assert "2026-03-01 to 2026-03-30: 3 papers" in told()
    assert "3 papers    18 values  accuracy: GSM8K" in told()
    assert "; 0 reported" in told("--days", "29")


def test_a_table_that_repeats_a_number_is_listed_once(client: Client) -> None:
    rows = "".join(
        f"<tr class='ltx_tr'><td class='ltx_td'>{name}</td><td class='ltx_td'>{number}</td></tr>"
        for name, number in (
            ("Method", "GSM8K (acc.)"),
            ("Wren", "61"),
            ("Wren", "61"),
            ("Wren", "60"),
        )
    )
    add("2512.00002", "Wren", f"<figure><table class='ltx_tabular'>{rows}</table></figure>")
    page = client.get(f"/quantities/?{QUERY}").content.decode()
    assert (page.count(">61</a>"), page.count(">60</a>")) == (1, 1)
    assert page.index("Reported by") < page.index("Setting"), "the title stands beside the number"

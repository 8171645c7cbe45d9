"""The API gives all that the pages of a paper, a day, a method and a run show.

The pages are read as a reader sees them, by their elements; `test_tables.py` does the same for
tables.
"""

from __future__ import annotations

import re
from io import StringIO
from statistics import median
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from lxml import html

from tests import factories
from tests.runs import scenes
from webapp.runs.models import Run
from webapp.ui.markup import plain

pytestmark = pytest.mark.django_db


def page_of(client: Client, address: str) -> html.HtmlElement:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return html.document_fromstring(answer.content.decode())


def told(client: Client, path: str) -> Any:
    return client.get(f"/api/v1{path}").json()


def words(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


def test_a_day(client: Client) -> None:
    factories.make_day(30)
    page, digest = page_of(client, "/"), told(client, "/digests/site")
    cards = page.xpath("//article[contains(@class, 'card')]")
    assert len(cards) == len(digest["entries"]) == 30
    for card, entry in zip(cards, digest["entries"], strict=True):
        paper = entry["paper"]
        assert card.get("id") == f"p-{paper['id']}"
        title, written = words(card.find(".//h2")), plain(paper["title"])
        assert written[:8] == title[:8]
        assert "$" in paper["title"] or title == written
        assert f"Rank {entry['rank']}" in words(card)
        assert all(name in words(card) for name in paper["authors"][:1])
        chips = [
            words(chip)
            for chip in card.xpath(".//ul[@class='chips']/li[not(contains(@class, 'rest'))]")
        ]
        points = [match["keyword"] for match in entry["matches"]]
        rest = card.xpath(".//ul[@class='chips']/li[contains(@class, 'rest')]")
        assert len(chips) + sum(int(words(item).split()[0]) for item in rest) == len(points)
        assert all(any(word in chip for word in points) for chip in chips)
        shown = words(card.xpath(".//div[@class='text']")[0])
        opening = " ".join(paper["abstract"].split()).partition("$")[0]
        assert shown.startswith(opening[:40])
        assert len(opening) > 5
        assert entry["announce_type"] in words(card)


def numbers(text: str) -> list[float]:
    """The numbers of a text as a page writes them: 1.8×, 0.52–0.54, 3.1e-07."""
    return [float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", text)]


def test_a_method(client: Client) -> None:
    call_command("import_results", stdout=StringIO())
    page = page_of(client, "/methods/sparse_attention/")
    rows = page.xpath("//table[@class='verdicts']/tbody/tr")
    claims = told(client, "/methods/sparse_attention/results")
    assert len(rows) == len(claims) > 5
    measured = 0
    for row, claim in zip(rows, claims, strict=True):
        said, figure, verdict = (words(cell) for cell in row.findall("td"))
        assert said.startswith(claim["text"][:12])
        assert claim["setting"][:12] in said
        assert (claim["verdict"] or "").lower() in verdict.lower()
        assert claim["reason"].lower() in verdict.lower()
        if claim["run"]:
            measured += 1
            shown = numbers(figure)
            for name, number in zip(("measured", "low", "high"), shown, strict=False):
                assert number == pytest.approx(claim[name], rel=0.006), claim
            assert row.xpath(f".//a[@href='/runs/{claim['run']}/']")
        if claim["finding"]:
            assert row.xpath(".//details")
    assert measured


def test_a_run(client: Client) -> None:
    run: Run = scenes.measured(factories.make_reader("ada"))
    page, result = page_of(client, f"/runs/{run.pk}/"), told(client, f"/runs/{run.pk}/results")
    text = words(page)
    assert " ".join(result["command"].split()) in text
    assert result["hardware"] in text
    tables = page.xpath("//table[starts-with(@class, 'points')]")
    assert len(tables) == len(result["series"]) == 1
    for table, series in zip(tables, result["series"], strict=True):
        rows = table.xpath("./tbody/tr")
        points = series["points"]
        assert len(rows) == len(points) > 1
        shown = sorted(numbers(words(row.findall("td")[1]))[0] for row in rows)
        given = sorted(point["value"] or median(point["samples"]) for point in points)
        assert shown == pytest.approx(given, rel=0.01)
    checks = page.xpath("//table[starts-with(@class, 'checks')]/tbody/tr")
    assert len(checks) == len(result["checks"]) == 2
    for check in result["checks"]:
        assert check["label"] in text

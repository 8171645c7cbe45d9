"""Invisible and reordering characters from other servers are never stored."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from assay_common.text import clean
from tests.library.test_zotero_reading import ADDRESS, KEY, library, reader  # noqa: F401
from tests.papers.test_names import FEED
from tests.servers.openai import OpenAIServer, honest_summary
from tests.servers.zotero import ZoteroLibrary
from tests.summaries.conftest import *  # noqa: F403 - its fixtures
from tests.summaries.test_summarise import summarised
from tests.summaries.test_texts import pdf
from tests.test_entries import HIDDEN, stored
from webapp.library import zotero_reading
from webapp.papers.formats import parse_feed
from webapp.papers.models import Paper
from webapp.papers.store import prepare, store_papers
from webapp.summaries.fulltext import full_text

pytestmark = pytest.mark.django_db(transaction=True)
DAY = date(2025, 12, 18)
SEEN_BY_XML = "a\u202ebc\u200bd\u2066e"  # the others XML itself refuses
WORDS = "Sparse attention folds its strides into heads and is 3.5 times faster. " * 20


def assert_clean() -> None:
    """Every text in the database is clean, and some of them were not as they came."""
    kept = list(stored())
    assert [text for _, text in kept if "abcde" in text]
    assert [where for where, text in kept if clean(text) != text.replace("\r\n", "\n")] == []


def test_of_a_feed() -> None:
    written = FEED.replace("Foo}", f"Foo}} {SEEN_BY_XML}").replace("5\\%", f"5\\% {SEEN_BY_XML}")
    batch = parse_feed(written.replace("Bojak", f"Bojak{SEEN_BY_XML}").encode(), "cs.LG", DAY)
    store_papers(batch.entries, DAY, prepare(batch.entries))
    assert_clean()


def test_of_a_page_of_arxiv_and_a_model(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    table = f"<table><tr><th>Model {HIDDEN}</th><th>Acc</th></tr><tr><td>o</td><td>7</td></tr>"
    article = f"<article><h1>T {HIDDEN}</h1><p>{WORDS}{HIDDEN}</p>{table}</table></article>"
    arxiv.clear()
    arxiv.expect_request("/html/2512.00001v1").respond_with_data(article.encode())
    answer: dict[str, Any] = honest_summary(WORDS)
    answer["gist"] += f" {HIDDEN}\ud800"
    answer["contributions"]["method"] = [f"{HIDDEN} \ud800"]
    answer["claims"][0]["setting"] = HIDDEN
    model.given = json.dumps(answer)
    assert summarised(paper).state == "done"
    assert_clean()


def test_of_a_pdf(arxiv: HTTPServer, paper: Paper) -> None:
    arxiv.clear()
    body = pdf([f"1 Introduction\n{WORDS} a\\007bc\\000de"])
    arxiv.expect_request("/pdf/2512.00001v1").respond_with_data(
        body, content_type="application/pdf"
    )
    assert full_text(paper).source == "pdf"
    assert_clean()


def test_of_a_library_at_zotero(library: ZoteroLibrary, reader: Any) -> None:  # noqa: F811
    client = Client()
    client.force_login(reader)
    client.post(ADDRESS, {"library": "users/1", "key": KEY})
    library.collect("HID", f"{HIDDEN}\ud800")
    library.keep("HID", title=f"{HIDDEN}\ud800", abstractNote=f"{HIDDEN}\ud800", extra="\x00",
                 collections=["HID"])  # fmt: skip
    zotero_reading.read(reader)
    assert_clean()
    assert client.get(ADDRESS).status_code == 200

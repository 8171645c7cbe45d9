"""The quote of a paper is in its row, its mail, its feeds and the API."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from tests import factories
from webapp.mail import deliver
from webapp.mail.models import Delivery
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
HERON = (
    "Attention is costly. We present Heron, a sparse attention. Heron achieves a 3.1x speedup over"
    " full attention on H100, while keeping 98% of its accuracy. It reduces memory by 40%."
)
QUOTE = "Heron achieves a 3.1x speedup over full attention on H100"


@pytest.fixture
def paper(db: None) -> Paper:
    heron = factories.make_paper(1, title="Heron", abstract=HERON)
    silent = factories.make_paper(2, title="Egret", abstract="We study birds. They fly.")
    factories.make_listing()
    factories.make_digest(factories.make_profile(), [heron, silent])
    return heron


def test_a_row_quotes_what_its_paper_reports(paper: Paper, client: Client) -> None:
    first, second = re.findall(r"<article.*?</article>", client.get("/").content.decode(), re.S)
    assert f"“{QUOTE.replace('3.1x', '<b>3.1x</b>')}”" in first
    assert "“" not in second


def test_feeds_mail_and_api_quote_the_same(paper: Paper, client: Client) -> None:
    entry, silent = client.get("/api/v1/digests/site").json()["entries"]
    assert (entry["sentence"], entry["quote"]) == ("We present Heron, a sparse attention.", QUOTE)
    assert (silent["sentence"], silent["quote"]) == ("We study birds.", "")
    item, other = client.get("/digest.json").json()["items"]
    assert (
        f"<blockquote>{QUOTE.replace('3.1x', '<b>3.1x</b>')}</blockquote>" in item["content_html"]
    )
    assert "blockquote" not in other["content_html"]
    profile = paper.digest_entries.get().digest.profile
    delivery = Delivery.objects.create(
        reader=factories.make_reader(), profile=profile, frequency="daily",
        sent_until=factories.DAY - timedelta(days=1), looked_on=factories.DAY,
    )  # fmt: skip
    _, (line, quiet) = deliver.preview(delivery)
    assert line["quote"] is not None
    assert line["quote"].text == QUOTE
    assert quiet["quote"] is None


def test_a_paper_is_given_with_all_its_quotes(paper: Paper, client: Client) -> None:
    quotes = client.get(f"/api/v1/papers/{paper.arxiv_id}").json()["quotes"]
    assert [quote["quote"] for quote in quotes] == [
        QUOTE, "keeping 98% of its accuracy.", "It reduces memory by 40%."
    ]  # fmt: skip
    assert [number for quote in quotes for number in quote["numbers"]] == [
        {"value": "3.1", "unit": "×", "kind": "ratio"},
        {"value": "98", "unit": "%", "kind": "share"},
        {"value": "40", "unit": "%", "kind": "share"},
    ]

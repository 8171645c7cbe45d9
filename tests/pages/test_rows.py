"""What a paper reports stands in its row, its mail, its feeds and in the API."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from tests import factories
from webapp.claims import abstracts
from webapp.claims.models import AbstractNumber
from webapp.mail import deliver
from webapp.mail.models import Delivery
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
HERON = (
    "Attention is costly. We present Heron, a sparse attention. Heron achieves a 3.1x speedup over"
    " full attention on H100. Heron reaches an accuracy of 71.2% on GSM8K. It reduces memory by"
    " 40%."
)
REPORTED = ["3.1× speedup", "71.2% accuracy"]


@pytest.fixture
def paper(db: None) -> Paper:
    heron = factories.make_paper(1, title="Heron", abstract=HERON)
    silent = factories.make_paper(2, title="Egret", abstract="We study birds. They fly.")
    factories.make_listing()
    factories.make_digest(factories.make_profile(), [heron, silent])
    return heron


def sentences(client: Client) -> list[str]:
    """The line of each row that says what the paper is."""
    page = client.get("/").content.decode()
    found = re.findall(r'<p class="(?:gist|sentence)">(.*?)</p>', page, re.DOTALL)
    return [" ".join(re.sub("<[^>]+>", "", line).split()) for line in found]


def test_a_row_tells_two_numbers_before_its_sentence(paper: Paper, client: Client) -> None:
    sentence = "We present Heron, a sparse attention."
    assert sentences(client) == [sentence, "We study birds."]
    abstracts.read_new()  # the page is kept, and made anew
    assert sentences(client) == [
        f"It reports {' · '.join(REPORTED)} · {sentence}",
        "We study birds.",
    ]
    factories.summarise(paper, gist="In short.", gist_html="<b>In short.</b>")
    assert sentences(client)[0] == f"It reports {' · '.join(REPORTED)} · In short."


def test_feeds_mail_and_api_tell_the_same(paper: Paper, client: Client) -> None:
    abstracts.read_new()
    entry, silent = client.get("/api/v1/digests/site").json()["entries"]
    assert (entry["sentence"], entry["reported"]) == (
        "We present Heron, a sparse attention.", REPORTED
    )  # fmt: skip
    assert (silent["sentence"], silent["reported"]) == ("We study birds.", [])
    item, other = client.get("/digest.json").json()["items"]
    assert f"<p>It reports {' · '.join(REPORTED)}</p>" in item["content_html"]
    assert "It reports" not in other["content_html"]
    profile = paper.digest_entries.get().digest.profile
    delivery = Delivery.objects.create(
        reader=factories.make_reader(), profile=profile, frequency="daily",
        sent_until=factories.DAY - timedelta(days=1), looked_on=factories.DAY,
    )  # fmt: skip
    _, (line, quiet) = deliver.preview(delivery)
    assert (line["numbers"], quiet["numbers"]) == (" · ".join(REPORTED), "")


@pytest.mark.parametrize(
    ("told", "number"),
    [
        ("3.1× speedup", {"metric": "speed-up", "relation": "ratio", "text": "3.1×",
                          "direction": "more", "name": "speedup"}),
        ("40% less memory", {"relation": "loss", "text": "40%", "direction": "less",
                             "name": "memory"}),
        ("97% of accuracy", {"relation": "share", "text": "97%", "name": "accuracy"}),
        ("accuracy within 1%", {"relation": "within", "text": "1%", "name": "accuracy"}),
    ],
)  # fmt: skip
def test_a_number_is_told_by_its_relation(told: str, number: dict[str, str]) -> None:
    assert AbstractNumber(**number).told == told

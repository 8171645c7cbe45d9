"""Measurements on the pages of methods and papers: the results that every new site has."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from methods import registry
from tests import databases
from tests.catalog import train_links
from webapp.catalog import cases, chips, linking
from webapp.catalog.models import MethodLink
from webapp.catalog.queries import Carried
from webapp.claims.models import Correction
from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.papers.models import Announcement, Listing, Paper
from webapp.papers.search import search

pytestmark = pytest.mark.django_db
DAY = date(2026, 3, 12)


@pytest.fixture(scope="module")
def _stored(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A paper on sparse attention in the digest of a day, and everything that was committed."""
    with databases.module_rows(django_db_blocker):
        _store()
        yield


@pytest.fixture
def paper(_stored: None, db: None) -> Paper:
    return Paper.objects.get(arxiv_id="2603.00001")


def _store() -> None:
    call_command("import_results", stdout=StringIO())
    when = datetime(2026, 3, 12, tzinfo=UTC)
    listing = Listing.objects.create(
        category="cs.LG", date=DAY, state="complete", polled_at=when, changed_at=when
    )
    made = Paper.objects.create(
        arxiv_id="2603.00001",
        title="Sparse attention, again",
        abstract="We study block sparse attention.",
        primary_category="cs.LG",
        categories=["cs.LG"],
        announced_on=DAY,
    )
    Announcement.objects.create(listing=listing, paper=made, type="new", version=1)
    site, _ = Profile.objects.update_or_create(
        is_site=True,
        defaults={
            "name": "Today",
            "categories": ["cs.LG"],
            "keywords": [{"keyword": "sparse attention", "weight": 1.0, "title_bonus": 0.5}],
            "announce_types": ["new"],
        },
    )
    build([DAY], [site])
    linking.link(Paper.objects.all())
    chips.refresh()


def body(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def found(query: str) -> list[str]:
    return [one.arxiv_id for one in search(query).papers]


def test_a_method_shows_its_charts_its_claims_and_its_papers(client: Client, paper: Paper) -> None:
    best = Carried(registry.get("sparse_attention")).best
    assert best is not None
    page = body(client, "/methods/sparse_attention/")
    assert best.word == "faster"
    shown = html.unescape(" ".join(re.sub("<[^>]+>", " ", page).split()))
    assert f"faster ({best.interval}) than {best.comparator} at {best.regime}" in shown
    first = page.index("<svg", page.index('id="measured"'))
    assert "Forward" in page[first : page.index("</svg>", first)]  # time, before a cache's bytes
    assert re.search(r"reproduced|partly|not reproduced", page)
    assert f"/papers/{paper.arxiv_id}/" in page


def test_every_method_has_a_page_and_a_place_in_the_list(client: Client, paper: Paper) -> None:
    listed = body(client, "/methods/")
    for slug in ("sparse_attention", "concept_lm", "seps", "token_pruning"):
        assert f"/methods/{slug}/" in listed
        body(client, f"/methods/{slug}/")


def test_a_linked_paper_shows_the_method_and_no_claim_of_its_source(
    client: Client, paper: Paper
) -> None:
    page = body(client, f"/papers/{paper.arxiv_id}/")
    assert "Not implemented here. Closest:" in answer_on_page(client, paper)
    assert "/methods/sparse_attention/" in page
    assert "AMD EPYC" not in page
    assert "1.2 to 2.0 times faster" not in page
    assert "reproduced" not in page


def test_a_paper_that_only_uses_a_method_has_neither_block_nor_chip(
    client: Client, paper: Paper
) -> None:
    assert found("method:sparse_attention") == [paper.arxiv_id]
    MethodLink.objects.update(relation="uses")
    chips.refresh()
    assert found("method:sparse_attention") == []
    assert "<b>No.</b> Not implemented here." in answer_on_page(client, paper)
    assert "/methods/sparse_attention/" not in body(client, "/digest/2026-03-12/")
    assert f"/papers/{paper.arxiv_id}/" not in body(client, "/methods/sparse_attention/")


def test_a_reader_corrects_a_link_once_and_for_all(client: Client, paper: Paper) -> None:
    link = MethodLink.objects.get(method="sparse_attention")
    address = f"/papers/{paper.arxiv_id}/methods/sparse_attention/"
    assert client.post(address, {"about": "no"})["Location"].startswith("/sign-in/")
    client.force_login(User.objects.create_user("ada"))
    assert client.get(address).status_code == 405
    client.post(address, {"about": "no"})
    linking.link(Paper.objects.all())
    link.refresh_from_db()
    assert link.confirmed is False
    assert "Sparse attention" not in answer_on_page(client, paper)
    found, texts = train_links.decided_here()
    assert [(one.id, one.relation) for one in found] == [(paper.arxiv_id, "none")]
    assert texts[paper.arxiv_id].title == paper.title


def test_a_corrected_mechanism_wins_is_a_case_and_can_be_undone(
    client: Client, paper: Paper
) -> None:
    client.force_login(User.objects.create_user("ada"))
    address = f"/papers/{paper.arxiv_id}/methods/sparse_attention/"
    before = answer_on_page(client, paper)
    assert client.post(address, {"mechanism": "no_such"}).status_code == 400
    client.post(address, {"mechanism": "longformer"})
    assert "Longformer: a sliding window with global tokens" in answer_on_page(client, paper)
    (case,) = cases.cases()
    assert (case["id"], case["subject"]) == (paper.arxiv_id, "sparse_attention")
    assert case["value"] == {"mechanism": "longformer"}
    client.post(address, {"mechanism": ""})
    assert "Not implemented here" in answer_on_page(client, paper)
    client.post(address, {"undo": "yes"})
    assert "Longformer: a sliding window with global tokens" in answer_on_page(client, paper)
    client.post(address, {"undo": "yes"})
    assert answer_on_page(client, paper) == before
    assert not list(cases.cases())
    assert Correction.objects.count() == 2  # kept, with who made them


def answer_on_page(client: Client, paper: Paper) -> str:
    """The answer on a paper's page to "Can it be tested here?"."""
    page = body(client, f"/papers/{paper.arxiv_id}/")
    page = page[page.index('id="testable"') : page.index('id="abstract"')]
    page = re.sub(r"<select.*?</select>", "", page, flags=re.DOTALL)
    return re.sub(r'value="[^"]{20,}"', "", " ".join(page.split()))


@pytest.mark.usefixtures("paper")
@pytest.mark.parametrize(
    ("slug", "series"),
    # All times of concepts bear a doubt, and what is in doubt is no headline. What seps saves of
    # memory its control saves as well: its page begins with what its verdicts rest on.
    [("sparse_attention", "forward"), ("concept_lm", "kv_bytes"), ("seps", "rsum")],
)
def test_a_page_begins_with_what_its_benchmark_is_about(slug: str, series: str) -> None:
    carried = Carried(registry.get(slug))
    first = carried.in_order[0]
    assert first.series.name == series
    if slug != "seps":
        assert carried.best is not None
        assert carried.best.point in first.series.points

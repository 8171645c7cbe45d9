"""A paper's page: why it is here, its own numbers beside ours, related method, similar papers."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from tests import factories
from webapp.catalog import linking
from webapp.digests import text_formats
from webapp.digests.models import Digest
from webapp.digests.queries import digest_entries
from webapp.mail import deliver
from webapp.papers import citations
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
ABSTRACT = (
    "We study block sparse attention for long contexts. Our sparse attention kernel reaches a "
    "3.1x speedup over dense attention. It lifts accuracy by 4.2 points on LongBench."
)
RESULTS = "benchmarks/results/sparse_attention/latency.jsonl"


@pytest.fixture
def paper() -> Paper:
    call_command("import_results", RESULTS, stdout=StringIO())
    made = factories.make_paper(
        1, title="Block sparse attention, faster", abstract=ABSTRACT, announced_on=factories.DAY
    )
    factories.make_paper(
        2, title="Sparse attention for long contexts", abstract="Block sparse attention again."
    )
    linking.link(Paper.objects.all())
    return made


def body(client: Client, paper: Paper) -> str:
    response = client.get(f"/papers/{paper.arxiv_id}/")
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_the_parts_stand_in_a_readers_order(client: Client, paper: Paper) -> None:
    factories.make_listing("cs.LG")
    factories.make_digest(factories.make_profile(), [paper])
    page = body(client, paper)
    order = ["arxiv.org/pdf/2603", "arxiv.org/html/2603", "What it did", "What it reports",
             "<b>3.1x</b>", 'id="testable"', 'id="abstract"', ">3.1x</mark>", 'id="similar"',
             'id="why"', 'id="bibtex"', "<h2>Facts"]  # fmt: skip
    places = [page.index(one) for one in order]
    assert places == sorted(places)


def test_the_reasons_are_the_words_that_matched(client: Client, paper: Paper) -> None:
    assert 'id="why"' not in body(client, paper)
    factories.make_listing("cs.LG")
    factories.make_digest(factories.make_profile(), [paper])
    why = body(client, paper)
    why = why[why.index('id="why"') : why.index("</section>", why.index('id="why"'))]
    entry = paper.digest_entries.get()
    assert "number <b" in why
    for match in entry.matches:
        assert match["keyword"] in why


def test_similar_papers_are_named(client: Client, paper: Paper) -> None:
    page = body(client, paper)
    similar = page[page.index('id="similar"') :]
    assert "/papers/2603.00002/" in similar


@pytest.mark.parametrize(
    ("comment", "withdrawn"),
    [
        ("This paper has been withdrawn by the author due to an error in Lemma 2", True),
        ("Withdrawn: see v2", True),
        ("Withdrawn", True),
        ("Paper withdrawn by the authors", True),
        ("12 pages. This version withdrawn by arXiv administrators", True),
        ("This article has been temporarily withdrawn", True),
        ("The authors have withdrawn this paper", True),
        ("This paper has been withdrawn at the request of the author", True),
        ("arXiv admin note: This submission has been withdrawn by arXiv administrators", True),
        ("This submission has been removed by arXiv administrators because it", True),
        ("arXiv admin comment: This version has been removed by arXiv administrators", True),
        ("We withdraw this paper because of an error in Theorem 2", True),
        ("The authors have decided to withdraw this submission", True),
        ("The author wishes to withdraw the manuscript.", True),
        ("I am withdrawing this preprint", True),
        ("The paper contains errors and has been withdrawn", True),
        ("12 pages, 3 figures. Withdrawn by the author.", True),
        ("This work is being withdrawn; a new version will follow", True),
        ("This manuscript has since been withdrawn", True),
        ("The paper is hereby withdrawn.", True),
        ("[Withdrawn] 10 pages", True),
        ("WITHDRAWN - superseded", True),
        ("Withdrawn due to a crucial error", True),
        ("This paper was retracted by its authors", True),
        ("Our paper has been retracted", True),
        ("This paper has been withdrawn from arXiv by the authors", True),
        ("Withdrawal requested by the authors", True),
        ("6 pages; this draft is withdrawn pending a proof", True),
        ("We have withdrawn our paper from NeurIPS 2025", False),
        ("Paper was withdrawn from the ICML workshop", False),
        ("We study how often a drug is withdrawn", False),
        ("Noise is removed by the administrator of a network", False),
        ("Retraction notices and their readers", False),
        ("The author index was removed", False),
        ("Superseded by arXiv:2301.01234", False),
        ("Retracted papers of 20 years, and who cites them", False),
        ("Submission withdrawn from ICLR", False),
        ("withdrawn from ICLR 2026", False),
        ("Withdrawn submission to NeurIPS", False),
        ("12 pages; the offer was not withdrawn", False),
        ("Removed by the authors", True),
        ("12 pages; removed by its authors", True),
        ("This submission was removed by the authors because of an error", True),
        ("Boilerplate removed by the authors’ filter of 3,000 pages", False),
        ("The artefacts were removed by the author’s method", False),
    ],
)
def test_withdrawn_papers_are_known_by_their_comment(comment: str, withdrawn: bool) -> None:
    assert factories.make_paper(3, comment=comment).withdrawn is withdrawn


def test_a_withdrawn_paper_says_so_everywhere(client: Client, paper: Paper) -> None:
    assert "withdrawn" not in client.get("/methods/sparse_attention/").content.decode()
    Paper.objects.filter(pk=paper.pk).update(
        comment="This paper has been withdrawn by the authors.", enriched_at=timezone.now()
    )
    paper.refresh_from_db()
    factories.make_listing("cs.LG")
    factories.make_digest(factories.make_profile(), [paper], factories.DAY)
    assert "<b>Withdrawn.</b> This paper has been withdrawn" in body(client, paper)
    for address in (
        "/digest/2026-03-12/",
        "/search?q=sparse+attention",
        "/methods/sparse_attention/",
    ):
        assert "withdrawn" in client.get(address).content.decode(), address
    for address in ("/digest.json", "/methods/sparse_attention.json"):
        titles = [one["title"] for one in json.loads(client.get(address).content)["items"]]
        assert "Withdrawn: Block sparse attention, faster" in titles, address
    assert "Withdrawn" in citations.bibtex(paper)
    assert "Withdrawn" in citations.ris(paper)
    assert citations.csl(paper)["note"] == "Withdrawn"
    assert client.get(f"/api/v1/papers/{paper.arxiv_id}").json()["withdrawn"] is True
    entry = paper.digest_entries.get()
    assert "Withdrawn. Block" in deliver._line(User(pk=1), entry, factories.DAY, "")["title"]
    digest = Digest.objects.get()
    written = [write(digest, digest_entries(digest)) for write in text_formats.FORMATS.values()]
    assert all("Withdrawn: Block" in one or '"withdrawn": true' in one for one in written)

"""The pages of papers, as HTTP answers."""

from datetime import date

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests import factories
from webapp.papers.models import Listing, PaperVersion

pytestmark = pytest.mark.django_db


def text(response):
    return response.content.decode()


def test_a_paper_carries_what_reference_managers_read(client):
    factories.make_paper(
        1, title=r"Poincar\'e \emph{and} $n^2$", authors=[{"name": 'A "B" C'}, {"name": "D E"}]
    )
    page = text(client.get("/papers/2603.00001/"))
    for line in (
        '<meta name="citation_title" content="Poincaré and $n^2$">',
        '<meta name="citation_author" content="A &quot;B&quot; C">',
        '<meta name="citation_author" content="D E">',
        '<meta name="citation_publication_date" content="2026/03/11">',
        '<meta name="citation_pdf_url" content="https://arxiv.org/pdf/2603.00001">',
        '<meta name="citation_arxiv_id" content="2603.00001">',
    ):
        assert line in page
    assert "<msup><mi>n</mi><mn>2</mn></msup>" in page


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("/papers/2603.00001v2/", "/papers/2603.00001/#v2"),
        ("/papers/math.GT/0309136/", "/papers/math/0309136/"),
        ("/papers/math/0309136v1/", "/papers/math/0309136/#v1"),
    ],
)
def test_one_paper_has_one_address(client, asked, found):
    assert client.get(asked)["Location"] == found


@pytest.mark.parametrize(
    "path",
    [
        "/papers/2603.99999/",
        "/papers/x/",
        "/papers/2603.00001v0/",
        "/papers/2603.99999.bib",
        "/papers/٢٦٠٣.٠٠٠٠١/",
    ],
)
def test_an_unknown_paper_is_a_404(client, path):
    factories.make_paper(1)
    assert client.get(path).status_code == 404


def test_a_hostile_title_is_text(client):
    factories.make_paper(1, title="<script>alert(1)</script> & $\\broken{")
    page = text(client.get("/papers/2603.00001/"))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_versions_show_what_changed(client):
    paper = factories.make_paper(1, version=2, abstract="We lose nothing here.")
    PaperVersion.objects.filter(paper=paper).update(number=1, abstract="We <b>win nothing here.")
    PaperVersion.objects.create(
        paper=paper, number=2, title=paper.title, abstract=paper.abstract,
        announced_on=date(2026, 3, 13),
    )  # fmt: skip
    page = text(client.get("/papers/2603.00001/"))
    assert "<ins>lose</ins>" in page
    assert "<del>&lt;b&gt;win</del>" in page
    assert "announced 13 Mar 2026" in page


def test_what_is_empty_is_not_shown(client):
    paper = factories.make_paper(1, abstract="Birds fly. They do.")
    page = text(client.get("/papers/2603.00001/"))
    for heading in ("Versions", "Main table", "Summary", "Announced"):
        assert f">{heading}<" not in page
    assert "What it did" in page
    assert "Its abstract gives no number." in page
    factories.make_paper(2, abstract="We cut memory by 40%.")
    reporting = text(client.get("/papers/2603.00002/"))
    assert "<b>40%</b>" in reporting
    assert "gives no number" not in reporting
    assert paper.table_readings.count() == 0


def test_citations_are_files(client):
    factories.make_paper(1)
    factories.make_paper(2, arxiv_id="hep-th/9901001")
    bib = client.get("/papers/2603.00001.bib")
    assert bib["Content-Type"] == "application/x-bibtex; charset=utf-8"
    assert bib["Content-Disposition"] == 'attachment; filename="2603.00001.bib"'
    assert text(bib).startswith("@misc{")
    ris = client.get("/papers/hep-th/9901001.ris")
    assert ris["Content-Disposition"] == 'attachment; filename="hep-th-9901001.ris"'
    assert text(ris).startswith("TY  - MANSCPT\r\n")


def test_a_thousand_authors_are_folded_not_lost(client):
    names = [{"name": f"Author {n}", "affiliation": ""} for n in range(1000)]
    factories.make_paper(1, authors=names)
    page = text(client.get("/papers/2603.00001/"))
    assert "+984" in page
    assert "Author 999" in page


def test_the_audit_shows_states_counts_reasons_and_problems(client):
    factories.make_listing("cs.LG")
    factories.make_listing(
        "cs.CL", state="stale", reason="<i>again</i>", counts={},
        problems=[{"item": "entry 3", "reason": "no title"}],
    )  # fmt: skip
    page = text(client.get("/intake/"))
    assert "Thursday, 12 March 2026" in page
    assert "stale" in page
    assert "&lt;i&gt;again&lt;/i&gt;" in page
    assert "1 entry refused" in page
    assert "no title" in page
    assert '<td class="num" data-label="new">120</td>' in page


def test_the_audit_is_paged_and_opens_at_a_day(client, monkeypatch):
    monkeypatch.setattr("webapp.pages.papers.DAYS_A_PAGE", 1)
    factories.make_listing("cs.LG", date(2026, 3, 11))
    factories.make_listing("cs.LG", date(2026, 3, 12))
    assert 'id="d2026-03-12"' in text(client.get("/intake/"))
    second = text(client.get("/intake/?page=2"))
    assert 'id="d2026-03-11"' in second
    assert 'id="d2026-03-12"' not in second
    assert 'id="d2026-03-11"' in text(client.get("/intake/?date=2026-03-11"))
    assert "was not requested from arXiv" in text(client.get("/intake/?date=nonsense"))


def test_an_audit_without_rows_says_how_to_begin(client):
    assert "manage.py fetch" in text(client.get("/intake/"))


def test_search_finds_by_words_and_tells_when_nothing_fits(client):
    factories.make_paper(2)
    factories.make_paper(4)
    factories.make_listing("cs.LG")
    page = text(client.get("/search?q=dispatch"))
    assert page.count("<article") == 2
    assert text(client.get("/search?q=ti%3Adispatch")).count("<article") == 1
    page = text(client.get("/search?q=zebra"))
    assert "No paper found" in page
    assert "Try fewer words" in page
    assert "mixture of experts" in text(client.get("/search"))


def test_a_search_for_papers_like_one_that_is_like_none_asks_for_no_other_words(client):
    paper = factories.make_paper(2, title="Cooking rice", abstract="Rinse, boil, let it rest.")
    factories.make_listing("cs.LG")
    page = text(client.get(f"/search?q=papers+like+{paper.arxiv_id}"))
    assert "No paper found" in page
    assert "Cooking rice" in page
    assert "Try fewer words" not in page


@pytest.mark.parametrize(
    "query",
    [
        "q=%22%27%3B--",
        "q=*&page=x",
        "q=a&page=999999",
        f"q=a&page={'9' * 5000}",
        "q=a&category=%22&period=0",
        "q=NEAR(",
        "q=%00",
    ],
)
def test_no_query_breaks_the_search(client, query):
    factories.make_paper(1)
    assert client.get(f"/search?{query}").status_code == 200


def test_the_audit_is_kept_until_arxiv_is_asked_again(client: Client) -> None:
    listing = factories.make_listing("cs.CL")
    first = client.get("/intake/")
    with CaptureQueriesContext(connection) as queries:
        again = client.get("/intake/", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, len(queries)) == (304, 2)
    Listing.objects.filter(pk=listing.pk).update(polls=7, polled_at=timezone.now())
    assert "at request 7" in " ".join(text(client.get("/intake/")).split())

"""From a number of an abstract to others that report it, and back to its place."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.core.management import call_command
from django.test import Client

from tests import factories
from webapp.claims import abstracts, scopes
from webapp.claims.extraction.claims import claims_of
from webapp.claims.models import AbstractNumber, Comparator
from webapp.papers.models import Paper

HERON = (
    "We present Heron, a sparse attention. Heron achieves a 3.1x speedup over full attention on "
    "H100. Heron reaches an accuracy of 71.2% on GSM8K. It also saves a lot."
)
LARK = (
    "We present Lark. Lark achieves up to 2.4x speedup over dense attention. Lark improves "
    "accuracy by 2.5% over BERT base. Lark reaches an accuracy of 66% on the GSM8K benchmark."
)


@pytest.fixture
def two(db: None) -> tuple[Paper, Paper]:
    first = factories.make_paper(1, title="Heron", abstract=HERON)
    second = factories.make_paper(2, title="Lark <2>", abstract=LARK)
    abstracts.read_new()
    return first, second


def test_from_a_number_to_others_that_report_it_and_back(
    two: tuple[Paper, Paper], client: Client
) -> None:
    page = client.get(f"/papers/{two[0].arxiv_id}/").content.decode()
    link = re.search(r'<a class="quantity" href="([^"]+)"><mark id="number-(\d+)">3.1x<', page)
    assert link
    assert HERON[int(link[2]) :].startswith("3.1x")
    there = client.get(link[1].replace("&amp;", "&")).content.decode()
    assert "speed-up over full attention" in there
    assert "2 stored papers report it" in there
    for paper, text in (two[0], "3.1×"), (two[1], "up to 2.4×"):
        back = re.search(rf'<a href="(/papers/{paper.arxiv_id}/#number-\d+)">{text}', there)
        assert back
        assert f'id="{back[1].split("#")[1]}"' in client.get(back[1]).content.decode()
    assert "Lark &lt;2&gt;" in there


FORMULAS = (
    "We present Ibis. Accuracy stays within 1% of full attention, while throughput at $n=96$K "
    "rises $3\\times$ on Llama-3-8B and by 81\\% on Yi-9B. Ibis achieves a $4.5\\times$ speedup."
)


def test_a_number_in_a_formula_marks_the_formula_and_no_other_word(
    db: None, client: Client
) -> None:
    paper = factories.make_paper(1, title="Ibis", abstract=FORMULAS)
    page = client.get(f"/papers/{paper.arxiv_id}/").content.decode()
    prose = page[page.index('<div class="prose">') :].partition("</div>")[0]
    marks = re.findall(r'<mark id="number-(\d+)">(.*?)</mark>', prose)
    shown = [re.sub("<[^>]+>", "", words) for _, words in marks]
    assert shown == ["1%", "3×", "81%", "4.5×"]
    assert all("<math" in words for at, (_, words) in enumerate(marks) if at in {1, 3})
    assert "Llama-3-8B" in re.sub("<[^>]+>", "", prose)
    abstracts.read_new()  # now two have others like them, and are links with a name
    page = client.get(f"/papers/{paper.arxiv_id}/").content.decode()
    assert re.search(r'<a aria-label="4.5×" class="quantity" href="[^"]+"><mark id="number', page)
    starts = [int(start) for start, _ in marks]
    assert [FORMULAS[at:][:1] for at in starts] == ["1", "3", "8", "4"]


def test_a_page_says_what_the_numbers_are_of(two: tuple[Paper, Paper], client: Client) -> None:
    page = client.get(f"/papers/{two[0].arxiv_id}/").content.decode()
    table = page[page.index('class="tuples"') :].split("</details>")[0]
    words = " ".join(re.sub("<[^>]+>", " ", table).split())
    assert "speedup 3.1× Heron full attention H100 Who reports it" in words
    assert "accuracy 71.2% Heron GSM8K Who reports it" in words


def test_the_index_counts_papers_and_a_file_has_all(
    two: tuple[Paper, Paper], client: Client
) -> None:
    index = client.get("/quantities/").content.decode()
    assert "accuracy on GSM8K" in index
    assert "accuracy on GSM8K" in client.get("/quantities/?q=GSM8K").content.decode()
    assert "No quantity has this" in client.get("/quantities/?q=beauty").content.decode()
    query = "metric=accuracy&relation=level&benchmark=GSM8K"
    rows = list(
        csv.DictReader(io.StringIO(client.get(f"/quantities.csv?{query}").content.decode()))
    )
    assert {row["number"] for row in rows} == {"71.2%", "66%"}
    assert client.get("/quantities/?metric=beauty&relation=level").status_code == 404
    largest = client.get(f"/quantities/?{query}&order=largest").content.decode()
    assert largest.index("71.2%") < largest.index("66%")


def test_abstracts_are_read_once_and_again_when_they_change(two: tuple[Paper, Paper]) -> None:
    assert abstracts.read_new() == 0
    before = set(AbstractNumber.objects.values_list("pk", flat=True))
    Paper.objects.filter(pk=two[0].pk).update(abstract="We present Heron.", version=2)
    assert abstracts.read_new() == 1
    assert not AbstractNumber.objects.filter(paper=two[0]).exists()
    assert set(AbstractNumber.objects.values_list("pk", flat=True)) < before


def test_an_administrator_adds_a_comparator(two: tuple[Paper, Paper], admin_client: Client) -> None:
    assert not AbstractNumber.objects.filter(against="BERT").exists()
    form = {"name": "BERT", "written": "bert large\nbert base"}
    assert admin_client.post("/admin/claims/comparator/add/", form).status_code == 302
    assert abstracts.read_new() == 2
    assert AbstractNumber.objects.get(against="BERT").text == "2.5%"
    Comparator.objects.all().delete()
    assert abstracts.read_new() == 2
    assert not AbstractNumber.objects.filter(against="BERT").exists()


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Heron is 2.1x faster than FlashAttention-2.",
         scopes.Quantity("speed-up", "ratio", against="FlashAttention-2")),
        ("Heron needs 4x less memory than the full KV cache.",
         scopes.Quantity("memory", "ratio", against="full KV cache")),
        ("Heron achieves a 3x decoding speedup over full attention.",
         scopes.Quantity("speed-up", "ratio", against="full attention", stage="decode")),
        ("Heron reaches an accuracy of 71.2% on the challenging MATH-500 benchmark.",
         scopes.Quantity("accuracy", "level", benchmark="MATH-500")),
        ("Heron improves accuracy by 3% over a baseline.", scopes.Quantity("accuracy", "gain")),
        ("Heron reaches a glory of 71.2% on GSM8K.", None),
    ],
)  # fmt: skip
def test_the_quantity_of_a_number_is_named_by_its_sentence(
    sentence: str, expected: scopes.Quantity | None
) -> None:
    claims = claims_of(f"We present Heron. {sentence}")
    assert [scopes.quantity_of(one) for one in claims] == [expected] * len(claims)


def test_an_older_database_is_read_whole(db: None) -> None:
    call_command("migrate", verbosity=0)
    for number in range(3):
        factories.make_paper(number + 1, abstract=HERON)
    assert abstracts.read_new() == 3
    assert AbstractNumber.objects.count() == 6

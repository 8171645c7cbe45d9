"""Similar papers, as a paper's page and a reader's ranking use them."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.factories import make_paper
from webapp.learning.similar import similar
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db

PAPERS = {
    1: ("Speculative decoding with small drafts", "A draft model proposes tokens; a verifier..."),
    2: ("Faster drafts for speculative decoding", "The verifier accepts tokens of a draft model."),
    3: ("Protein folding by diffusion", "Residues of a protein fold under a diffusion model."),
    4: ("Cooking rice", "Rinse, boil, and let it rest."),
}


@pytest.fixture
def papers() -> dict[int, Paper]:
    return {
        number: make_paper(number, title=title, abstract=abstract)
        for number, (title, abstract) in PAPERS.items()
    }


def test_the_most_alike_comes_first_and_the_unlike_not_at_all(papers: dict[int, Paper]) -> None:
    found = similar(papers[1])
    assert [paper.pk for _, paper in found] == [papers[2].pk]
    assert 0.3 < found[0][0] < 1
    assert similar(papers[4]) == []


def test_two_common_words_alone_make_no_paper_similar(papers: dict[int, Paper]) -> None:
    words = "Molecular dynamics of residues and ligands; enzymes, genomes, neurons and cells. "
    make_paper(8, title="Protein folding in cells", abstract=f"{words}A draft and a verifier.")
    assert [paper.pk for _, paper in similar(papers[1])] == [papers[2].pk]


def test_two_queries_whatever_the_number_of_papers(
    papers: dict[int, Paper], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(10, 40):
        make_paper(number, title=PAPERS[2][0], abstract=PAPERS[2][1])
    with django_assert_num_queries(2):
        assert len(similar(papers[1], limit=7)) == 7


def test_a_paper_without_known_words_is_like_none() -> None:
    assert similar(make_paper(9, title="我們", abstract="%%%")) == []

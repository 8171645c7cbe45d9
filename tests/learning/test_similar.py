"""Similar papers, as a paper's page and a reader's ranking use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.factories import make_paper
from webapp.learning import encoder, postings
from webapp.learning.models import PaperVector
from webapp.learning.similar import similar
from webapp.learning.tfidf import vector
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
    assert similar(papers[1]) == [papers[2]]
    assert similar(papers[4]) == []


def test_two_common_words_alone_make_no_paper_similar(papers: dict[int, Paper]) -> None:
    words = "Molecular dynamics of residues and ligands; enzymes, genomes, neurons and cells. "
    make_paper(8, title="Protein folding in cells", abstract=f"{words}A draft and a verifier.")
    assert [paper.pk for paper in similar(papers[1])] == [papers[2].pk]


def test_one_rare_word_of_both_titles_makes_no_paper_similar(papers: dict[int, Paper]) -> None:
    """Without another word in common, however rare it is: nothing is shown to fill the list."""
    one = make_paper(
        8, title="Symmetric preference optimization for fewer hallucinations",
        abstract="Language models see objects that are not in an image. We optimize preferences "
        "over pairs of images and answers, so that a model looks before it speaks. Annotators "
        "prefer its captions, and benchmarks of visual questions count fewer invented objects."
    )  # fmt: skip
    make_paper(
        9, title="Symmetric sliding-mode control of inverters",
        abstract="Voltage tracking of a grid is disturbed by loads and faults. A controller "
        "compensates both in a sliding mode, whose surface follows from the current and the "
        "frequency. Hardware experiments with two converters confirm stable power sharing after a "
        "short circuit.",
    )  # fmt: skip
    assert similar(one) == []


def test_five_queries_at_most_whatever_the_number_of_papers(
    papers: dict[int, Paper], django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(10, 40):
        make_paper(number, title=PAPERS[2][0], abstract=PAPERS[2][1])
    postings.make(60)
    with django_assert_max_num_queries(5):  # the fifth reads vectors, where an encoder is there
        assert len(similar(papers[1], limit=7)) == 7


def test_an_old_paper_is_found_behind_any_number_of_newer_ones(papers: dict[int, Paper]) -> None:
    """They share its two strongest words and a pair of words, and are about something else."""
    text = "Speculative decoding is a draft model's, not what ligands do here."
    for number in range(20, 320):
        make_paper(number, title="Protein docking", abstract=text)
    assert postings.make(60) == 1
    assert similar(papers[1])[0] == papers[2]


def test_of_equals_the_latest_come_first(papers: dict[int, Paper]) -> None:
    alike = [make_paper(n, title=PAPERS[2][0], abstract=PAPERS[2][1]).pk for n in range(10, 130)]
    postings.make(60)
    assert [paper.pk for paper in similar(papers[1], 5)] == alike[:-6:-1]


def test_blocks_are_made_once_and_the_last_again_when_papers_come(
    papers: dict[int, Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three papers a block; what is found is the same in one block, in many, and in none yet."""
    unmade = similar(papers[1])
    monkeypatch.setattr(postings, "BLOCK", 3)
    for number in range(10, 20):
        make_paper(number, title=f"Cooking rice {number}", abstract=PAPERS[4][1])
    last = max(Paper.objects.values_list("pk", flat=True))
    assert postings.make(60) == last // 3 + 1
    assert postings.make(60) == 0
    assert similar(papers[1]) == unmade
    new = make_paper(20, title=PAPERS[2][0], abstract=PAPERS[2][1])
    assert [paper.pk for paper in similar(papers[1])] == [new.pk, papers[2].pk]  # at once
    assert postings.make(60) == 1
    assert [paper.pk for paper in similar(papers[1])] == [new.pk, papers[2].pk]
    papers[2].delete()
    assert [paper.pk for paper in similar(papers[1])] == [new.pk]


def test_another_vocabulary_makes_the_blocks_anew(
    papers: dict[int, Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    postings.make(60)
    monkeypatch.setattr(postings, "fingerprint", lambda: "another")
    assert (postings.make(60), postings.make(60)) == (1, 0)


def test_a_common_word_does_not_hide_the_heaviest(
    papers: dict[int, Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a word that many papers have, a lookup reads those in which it weighs most."""
    monkeypatch.setattr(postings, "READ", 1)
    filler = "Enzymes, genomes and neurons of cells; lanterns and rivers of glass; a draft."
    for number in range(10, 60):
        make_paper(number, title="Protein folding in rivers", abstract=filler)
    near = make_paper(60, title="Drafts", abstract="A draft model, a draft.")
    for number in range(61, 99):
        make_paper(number, title="Protein folding in rivers", abstract=filler)
    postings.make(60)
    mine = vector("A draft", "A draft.")
    assert near.pk in postings.nearest(mine, 1)


@pytest.fixture
def encoder_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An encoder is set up; its weights are not needed where vectors are stored."""
    for file in encoder.FILES:
        (tmp_path / file).touch()
    monkeypatch.setenv("ASSAY_ENCODER", str(tmp_path))
    encoder.read.cache_clear()
    yield encoder.name()
    monkeypatch.undo()
    encoder.read.cache_clear()


def test_an_encoder_orders_what_shares_as_many_words(
    papers: dict[int, Paper], encoder_name: str
) -> None:
    """The vectors are those that a site has stored; a paper without one keeps its place."""
    twins = [make_paper(n, title=PAPERS[2][0], abstract=PAPERS[2][1]) for n in (10, 11, 12)]
    assert [paper.pk for paper in similar(papers[1])][:3] == [twin.pk for twin in twins[::-1]]
    directions = {papers[1]: (100, 0), twins[0]: (100, 10), twins[1]: (0, 100), twins[2]: (50, 50)}
    for paper, direction in directions.items():
        PaperVector.objects.create(
            paper=paper, encoder=encoder_name, version=1, values=bytes(direction)
        )
    nearest = [paper.pk for paper in similar(papers[1])]
    assert nearest == [twins[0].pk, twins[2].pk, papers[2].pk, twins[1].pk]


def test_a_paper_without_known_words_is_like_none() -> None:
    assert similar(make_paper(9, title="我們", abstract="%%%")) == []

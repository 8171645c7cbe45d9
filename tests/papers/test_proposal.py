"""The sentence that tells what a paper does, without what any paper says in front of it."""

from __future__ import annotations

import pytest

from webapp.papers.proposal import first_clause, what_it_did

DID = "We propose Heron, a sparse attention that chooses its blocks."
RUN_UPS = [
    "In this paper, ",
    "In this work ",
    "To address these challenges, ",
    "To this end, ",
    "However, to overcome this limitation, ",
    "Motivated by this observation, ",
    "To tackle the aforementioned issues of scale, ",
    "Building on this insight, in this paper, ",
]


@pytest.mark.parametrize("run_up", RUN_UPS)
def test_a_run_up_goes(run_up: str) -> None:
    sentence = DID if not run_up else DID[0].lower() + DID[1:]
    assert what_it_did(f"Attention is costly. {run_up}{sentence} It is fast.") == DID


@pytest.mark.parametrize(
    "sentence",
    [
        "To reduce the memory of long contexts, we propose Heron.",
        "In three dimensions, we propose Heron.",
        "This paper presents Heron, a sparse attention.",
        "To address the quadratic cost of attention, we propose Heron.",
    ],
)
def test_what_says_something_of_this_paper_stays(sentence: str) -> None:
    assert what_it_did(f"Attention is costly. {sentence}") == sentence


def test_a_clause_ends_where_its_words_pause() -> None:
    assert first_clause(DID) == "We propose Heron"
    assert first_clause("It costs 1,000 tokens – and more") == "It costs 1,000 tokens"
    assert first_clause("No pause at all") == "No pause at all"

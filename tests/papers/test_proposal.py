"""The sentence that tells what a paper does, without what any paper says in front of it."""

from __future__ import annotations

import pytest

from webapp.papers.proposal import in_two_lines, what_it_did

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


# In front of what the paper did: another's name with a verb, results, what is shown of others.
BACKGROUND = [
    "CLIP learns from whole pictures.",
    "Long contexts improves answers at a cost.",
    "However, RLHF reduces the diversity of answers.",
    "GPT-4 achieves high scores and tends to be slow.",
    "Recent results suggest that blocks suffice.",
    "We show that existing methods developed for short texts fail.",
    "What is introduced into a cache stays there.",
]


@pytest.mark.parametrize("background", BACKGROUND)
@pytest.mark.parametrize(
    ("title", "did"),
    [
        ("Sparse attention by blocks", DID),
        ("Sparse attention by blocks", "The authors present an attention of blocks."),
        ("Heron: Sparse Attention", "Heron chooses its blocks by their keys."),
        ("Block Sparse Heron", "Block Sparse Heron skips blocks by exact scores."),
        ("Attention by Blocks (HERON)", "HERON replaces attention by a choice of blocks."),
    ],
)
def test_what_the_authors_made_comes_before_the_background(
    background: str, title: str, did: str
) -> None:
    abstract = f"{background} Attention is costly. {did} It is 2 times faster."
    assert what_it_did(abstract, title) == did


@pytest.mark.parametrize(
    "did",
    [
        "This case study audits one dialogue of 86 turns.",
        "Its framework adds supervision that aligns words with regions.",
        "We measure the cost of each block.",
    ],
)
def test_work_without_a_product_comes_before_results(did: str) -> None:
    abstract = f"CLIP learns from pictures. Heron improves its answers by 3%. {did} It is fast."
    assert what_it_did(abstract, "On Attention") == did


LONG = (
    "We present Heron, a sparse attention for long contexts that skips blocks by their exact scores"
)
FURTHER = (
    "of 64 keys in each of the twelve heads of every layer, as the measured rest of the model " * 2
)


@pytest.mark.parametrize(
    "parting",
    [
        ": (1) a kernel ",
        "; it reads blocks ",
        ", which reads blocks ",
        ", enabling ",
        " -- blocks ",
        ", reading the blocks ",
        ", and we read blocks ",
        " so that blocks ",
        " without reading blocks ",
    ],
)
def test_a_long_statement_ends_with_a_clause(parting: str) -> None:
    assert in_two_lines(f"{LONG}{parting}{FURTHER}.") == f"{LONG} …"
    longer = f"{LONG} {FURTHER}"  # the first clause is never cut, and ends what is shown
    assert in_two_lines(f"{longer}{parting}{FURTHER}; so.") == f"{longer} …"


def test_sentences_without_a_blank_between_them_are_two() -> None:
    assert what_it_did(f"Attention is costly.{DID}") == DID
    assert what_it_did(f"{DID}It reads pages of 3.5GB and config.Yaml files.") == DID


@pytest.mark.parametrize(
    "statement",
    [
        f"{LONG}: blocks of 64 keys.",  # short enough
        f"{LONG} {FURTHER}.",
        f"{LONG} (of keys; of values {FURTHER}).",
        f"{LONG} $f(x; y) {FURTHER}$.",
        f"{LONG}, a kernel that: (1) reads {FURTHER}.",
    ],
)
def test_a_statement_stays_whole_where_no_clause_ends(statement: str) -> None:
    assert in_two_lines(statement) == statement

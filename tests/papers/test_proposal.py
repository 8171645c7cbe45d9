"""The sentence that tells what a paper does, without what any paper says in front of it."""

from __future__ import annotations

import pytest

from webapp.papers.proposal import in_two_lines, what_it_did

DID = "We propose Heron, a sparse attention that chooses its blocks."
RUN_UPS = [
    "In this paper, ",
    "In this work ",
    "In this technical report, ",
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


LONG = "We present Heron, a sparse attention for long contexts, and the exact scores of its blocks"
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


SHORT = "We present Heron, a sparse attention for the long contexts of small models"


@pytest.mark.parametrize(
    "detail",
    [
        " that reads blocks ",
        " by reading blocks ",
        ", with blocks ",
        " through blocks ",
        " using the blocks ",
        " for reading blocks ",
        ", trained on blocks ",
        " and reads an index ",
        ", comprising blocks ",
    ],
)
def test_a_long_statement_without_further_clauses_goes_without_its_details(detail: str) -> None:
    assert in_two_lines(f"{SHORT}{detail}{FURTHER}.") == f"{SHORT} …"


def test_a_clause_that_says_little_goes_on_to_a_detail() -> None:
    clause = "We present Heron, an attention that is sparse and is quick"
    detail = " in the long contexts of small models"
    statement = f"{clause}: it reads a few blocks{detail} through blocks {FURTHER}."
    assert in_two_lines(statement) == f"{clause}: it reads a few blocks{detail} …"


@pytest.mark.parametrize(
    "reason",
    [
        "To read the contexts of whole libraries at the cost of one page, ",
        "Motivated by how people look up what they read a long time ago, ",
        "While attention reads all keys of the context for every new word, ",
    ],
)
def test_a_long_statement_goes_without_its_reason(reason: str) -> None:
    said = f"{SHORT}, whose blocks of keys are read in the order of their scores."
    assert in_two_lines(reason + said[0].lower() + said[1:]) == said
    assert in_two_lines(f"{reason}we propose Heron.") == f"{reason}we propose Heron."


@pytest.mark.parametrize(
    ("shown", "rest"),
    [
        (SHORT, f", so that blocks {FURTHER}"),
        (SHORT, f", where blocks {FURTHER}"),
        (SHORT, f", on records where whole blocks are missing {FURTHER}"),
        (
            f"{SHORT} that reads the blocks in order",
            f", with the following steps: sorting {FURTHER}",
        ),
        (f"{SHORT} that reads its blocks", f", as follows: sorting {FURTHER}"),
        (f"{SHORT} that calls a page [a block; 64 keys] by its name", f": blocks {FURTHER}"),
        (f"{SHORT} that calls a page “a block; 64 keys” by its name", f": blocks {FURTHER}"),
        (f'{SHORT} that calls a page "a block; 64 keys" by its name', f": blocks {FURTHER}"),
    ],
)
def test_what_is_shown_of_a_long_statement_is_whole(shown: str, rest: str) -> None:
    assert in_two_lines(f"{shown}{rest}.") == f"{shown} …"


def test_what_two_dashes_enclose_is_not_parted_from_its_verb() -> None:
    statement = "We show that the two oldest blocks of a long context -- of keys and of values"
    assert in_two_lines(f"{statement} -- decide the next word {FURTHER}.").startswith(
        f"{statement} -- decide the next word"
    )


def test_commands_of_tex_take_no_room() -> None:
    formula = r"$\mathbf{x}_{\mathrm{in}} \rightarrow \mathbf{y}_{\mathrm{out}}$ "
    statement = f"{LONG}, using {formula * 2}."
    assert in_two_lines(statement) == statement


def test_sentences_without_a_blank_between_them_are_two() -> None:
    assert what_it_did(f"Attention is costly.{DID}") == DID
    assert what_it_did(f"{DID}It reads pages of 3.5GB and config.Yaml files.") == DID


@pytest.mark.parametrize(
    "did",
    [
        "We propose Heron, which beats other methods, e.g. Quest, on books.",
        "We propose Heron, which is faster, i.e. $O(n)$, on books.",
        "We propose Heron and compare dense vs. Sparse attention on books.",
    ],
)
def test_an_abbreviation_ends_no_sentence(did: str) -> None:
    assert what_it_did(f"Attention is costly. {did} It is quick.") == did


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

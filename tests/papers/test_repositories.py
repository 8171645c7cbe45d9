"""The authors' repository: one address that they give, never one of those that they used."""

from __future__ import annotations

import pytest

from webapp.papers.repositories import offered, repository
from webapp.summaries.html_text import code_of_html

OURS = "https://github.com/heron/blocks"


@pytest.mark.parametrize(
    ("abstract", "comment", "address"),
    [
        ("Code: https://github.com/heron/blocks.", "", OURS),
        ("It is fast.", "12 pages, code at github.com/heron/blocks.git", OURS),
        ("See https://GitHub.com/heron/blocks and github.com/Heron/blocks/tree/main.", "", OURS),
        ("See github.com/heron/blocks and github.com/lark/nests.", "", ""),
        ("See notgithub.com/heron/blocks.", "", ""),
        ("It is fast.", "", ""),
    ],
)
def test_abstract_and_comment(abstract: str, comment: str, address: str) -> None:
    assert repository(abstract, comment).lower() == address


@pytest.mark.parametrize(
    "sentence",
    [
        "Our code is available at https://github.com/heron/blocks.",
        "We release all models and code 1 1 https://github.com/heron/blocks",
        "The implementation can be found in github.com/heron/blocks.",
        "Code: https://github.com/heron/blocks",
        "We will open-source everything: https://github.com/heron/blocks .",
        "The source code of this paper is publicly available: https://github.com/heron/blocks",
    ],
)
def test_a_sentence_that_offers_code(sentence: str) -> None:
    assert offered([sentence, "We measure on an A100."]) == OURS


@pytest.mark.parametrize(
    "sentence",
    [
        "We use the official code, available at https://github.com/heron/blocks.",
        "For Lark we used their implementation, released at https://github.com/heron/blocks.",
        "Code of Lee et al. is available at https://github.com/heron/blocks.",
        "Models were downloaded from https://github.com/heron/blocks.",
        "Evaluation is based on https://github.com/heron/blocks, whose code is available.",
    ],
)
def test_what_others_offer_is_not_the_authors(sentence: str) -> None:
    assert offered([sentence]) == ""


def test_two_repositories_are_none() -> None:
    other = "Our data are available at https://huggingface.co/heron/data."
    assert offered([f"Our code is available at {OURS}.", other]) == ""


def test_links_and_footnotes_of_the_html_and_no_bibliography() -> None:
    page = (
        "<article><p class='ltx_p'>We compare with Lark.<span class='ltx_note'>"
        "<span class='ltx_note_content'><a href='https://github.com/lark/nests'>Lark</a></span>"
        "</span> It is slow.</p>"
        "<p class='ltx_p'>Our code is available <a href='https://github.com/heron/blocks'>here"
        "</a>.</p><section class='ltx_bibliography'><p>Our code is available at "
        "https://github.com/other/one.</p></section></article>"
    )
    assert code_of_html(page.encode()) == OURS
    assert code_of_html(b"") == code_of_html(b"<p>No code.</p>") == ""
    slow = "<p>" + "our code " * 60_000 + "</p>"
    assert code_of_html(slow.encode()) == ""

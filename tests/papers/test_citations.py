"""BibTeX and RIS that reference managers can read, whatever arXiv sent."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.papers.citations import bibtex, ris, year
from webapp.papers.models import Paper


def paper(**fields):
    return Paper(
        **{
            "arxiv_id": "2603.00001",
            "title": "A Title",
            "abstract": "Words.",
            "authors": [{"name": "Ada Lindqvist", "affiliation": ""}],
            "primary_category": "cs.LG",
            "categories": ["cs.LG"],
        }
        | fields
    )


def test_bibtex_names_the_eprint():
    text = bibtex(paper(title="The Best of Sparse Attention", doi="10.1/x"))
    assert text.startswith("@misc{lindqvist2026best,\n")
    for line in (
        "  title         = {{The Best of Sparse Attention}},",
        "  author        = {Ada Lindqvist},",
        "  year          = {2026},",
        "  eprint        = {2603.00001},",
        "  archivePrefix = {arXiv},",
        "  primaryClass  = {cs.LG},",
        "  doi           = {10.1/x},",
        "  url           = {https://arxiv.org/abs/2603.00001}\n}",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("The ATLAS Collaboration", "{{The ATLAS Collaboration}}"),
        ("Bell and Howell", "{{Bell and Howell}}"),
        ("A. Bee, Jr", "{{A. Bee, Jr}}"),
        ("Łukasz Wójcik", "{Łukasz Wójcik}"),
    ],
)
def test_names_bibtex_would_take_apart_are_kept_whole(name, field):
    assert f"author        = {field}," in bibtex(paper(authors=[{"name": name}]))


@given(st.text(alphabet=r"ab{}\$%&#_^~ ", max_size=40), st.text(alphabet=r"a{}\% ", max_size=20))
def test_every_title_and_name_leaves_one_whole_entry(title, name):
    text = bibtex(paper(title=title, authors=[{"name": name}]))
    depths = [0]
    for brace in re.findall("[{}]", text):  # as BibTeX counts: a backslash makes no difference
        depths.append(depths[-1] + (1 if brace == "{" else -1))
    assert depths[-1] == 0
    assert min(depths[1:-1]) >= 1
    assert not re.search(r"(?<!\\)(?:\\\\)*[%&#]", text)


def test_ris_is_a_preprint_with_every_author():
    authors = [{"name": "Ludwig van Beethoven"}, {"name": "Plato"}, {"name": "The X Collaboration"}]
    text = ris(paper(title=r"Poincar\'e $n^2$", abstract="One\nTwo", authors=authors))
    assert text.split("\r\n") == [
        "TY  - UNPB",
        "TI  - Poincaré $n^2$",
        "AU  - van Beethoven, Ludwig",
        "AU  - Plato",
        "AU  - The X Collaboration",
        "PY  - 2026",
        "AB  - One Two",
        "PB  - arXiv",
        "M1  - arXiv:2603.00001",
        "UR  - https://arxiv.org/abs/2603.00001",
        "L1  - https://arxiv.org/pdf/2603.00001",
        "KW  - cs.LG",
        "ER  - ",
        "",
    ]


@pytest.mark.parametrize(
    ("identifier", "expected"), [("hep-th/9901001", 1999), ("math/0309136", 2003), ("2512.1", 2025)]
)
def test_the_year_is_known_from_the_identifier(identifier, expected):
    assert year(paper(arxiv_id=identifier)) == expected

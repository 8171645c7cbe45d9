"""BibTeX and RIS that reference managers can read, whatever arXiv sent."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.survey import not_read_back, repeated_keys
from webapp.papers.citations import FILES, bibtex, csl, keys, ris, year
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
        ("A. Bee, Jr", "{Bee, Jr, A.}"),
        ("Ludwig van Beethoven", "{van Beethoven, Ludwig}"),
        ("Ada B. Cole III", "{Cole, III, Ada B.}"),
        ("daria de tinguy", "{de tinguy, daria}"),
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
        "TY  - MANSCPT",
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


def zhang(number, given="Li", title="Efficient A", **fields):
    authors = [{"name": f"{given} Zhang"}]
    return paper(arxiv_id=f"2603.{number:05}", title=title, authors=authors, **fields)


def test_keys_of_a_file_are_unique_whatever_its_order():
    papers = [zhang(1), zhang(2, "Wei", "Efficient B"), zhang(3, "Bo", "Efficient C")]
    names = ["zhang2026efficient", "zhang2026efficienta", "zhang2026efficientb"]
    assert keys(papers) == names
    assert keys(papers[::-1]) == names[::-1]
    assert keys([papers[0], papers[0]]) == names[:1] * 2
    assert [item["id"] for item in json.loads(FILES["csl.json"][1](papers))] == names
    many = [zhang(number) for number in range(1000)]
    assert len(set(keys(many))) == 1000
    assert repeated_keys(many) == []


@pytest.mark.parametrize(
    ("title", "field"),
    [
        ("SWE_bench_x and M^3: three Ms", r"SWE\_bench\_x and M\textasciicircum{}3: three Ms"),
        ("Pay $5 for it", r"Pay \$5 for it"),
        ("R&D at 5% of #1 ~ {a}", r"R\&D at 5\% of \#1 \textasciitilde{} "
         r"\textbraceleft{}a\textbraceright{}"),
        ("Of $F_1$ and $x^{2}$", "Of $F_1$ and $x^{2}$"),
        (r"Of $\frac{1}{2$ and $a%b$", r"Of $\frac12$ and $a\%b$"),
        ("C:\\temp", r"C:\textbackslash{}temp"),
    ],
)  # fmt: skip
def test_what_tex_takes_for_its_own_is_escaped(title, field):
    assert f"title         = {{{{{field}}}}}," in bibtex(paper(title=title))


EVIL = "10.1/x},\n} @misc{evil, title={Owned} % $_^"


def test_no_field_can_end_its_entry():
    fields = ("title", "doi", "journal_ref", "primary_category")
    hostile = [paper(**{name: EVIL}) for name in fields]
    hostile += [paper(authors=[{"name": EVIL}, {"name": "Ada Cole"}])]
    for number, one in enumerate(hostile):
        one.arxiv_id = f"2603.{number:05}"
    assert [one for one in not_read_back(hostile) if "entries" in one] == []
    assert "evil" not in re.findall(r"@misc\{(\w+)", FILES["bib"][1](hostile))


def test_files_are_read_back_by_other_programs():
    names = [
        "Ludwig van Beethoven",
        "Ada Cole III",
        "The ATLAS Collaboration",
        "Plato",
        "Łukasz Żak",
    ]
    names += [
        "Cecilia Di Ruberto",
        "Jan-Willem van de Meent",
        "Hugo de Souza Oliveira",
        "A. B. Cole, Jr.",
    ]
    papers = [
        paper(
            arxiv_id=f"2603.{number:05}",
            title=title,
            doi="10.1234/a_b(c)%3C5",
            journal_ref="J. Foo & Bar 5 (2024) 12-34",
            authors=[{"name": name} for name in names],
            abstract="Two\n\n  paragraphs of it.\nTY  - no tag",
        )
        for number, title in enumerate(
            ["A_b $x_1$ ~ 5% {of} #it & M^3", "Efficient A", "Efficient B"]
        )
    ]
    assert not_read_back(papers) == []
    assert csl(papers[0])["note"] == "J. Foo & Bar 5 (2024) 12-34"
    assert csl(papers[0])["author"][:3] == [
        {"family": "Beethoven", "given": "Ludwig", "non-dropping-particle": "van"},
        {"family": "Cole", "given": "Ada", "suffix": "III"},
        {"literal": "The ATLAS Collaboration"},
    ]
    assert "AU  - Cole, Ada, III\r\n" in ris(papers[0])


@given(st.text(alphabet="ab {}\\$%&#_^~\n,", min_size=1, max_size=30), st.text(max_size=20))
def test_what_is_written_can_be_parsed(title, name):
    one = paper(title=title, authors=[{"name": name}], doi=title, journal_ref=name)
    assert [found for found in not_read_back([one]) if "entries" in found] == []

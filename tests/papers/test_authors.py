from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay_common.text import one_line
from tests.clock import ends_within
from webapp.papers.entries import Author
from webapp.papers.formats import parse_authors


def test_affiliations_hold_commas_and_parentheses() -> None:
    text = "Ada Quill (Moss Lab, Dept. (North, 2), Harbour), Bram Ohm, (the Lantern Collaboration)"
    assert parse_authors(text) == (
        Author("Ada Quill", "Moss Lab, Dept. (North, 2), Harbour"),
        Author("Bram Ohm"),
        Author("the Lantern Collaboration"),
    )


def test_a_suffix_belongs_to_the_name_before_it() -> None:
    assert parse_authors("Finn Peat, Jr., Cleo Ohm, III") == (
        Author("Finn Peat, Jr."),
        Author("Cleo Ohm, III"),
    )


def test_a_lost_parenthesis_costs_no_author() -> None:
    authors = parse_authors("Ada Quill (Moss Lab, Bram Ohm, Cleo Peat")
    assert [author.name for author in authors] == ["Ada Quill (Moss Lab", "Bram Ohm", "Cleo Peat"]
    assert len(parse_authors("Ada), Bram (x")) == 2


def test_nobody_is_nobody() -> None:
    assert parse_authors(" , ,") == ()


def test_ten_thousand_authors_take_no_time() -> None:
    text = ", ".join(f"Author {n} (Lab {n}, East)" for n in range(10_000))
    assert len(parse_authors(text)) == 10_000
    assert ends_within(3, parse_authors, text)


_NAME = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters=",()\\{}~"),
    min_size=4,
    max_size=12,
).filter(lambda name: one_line(name) == name)  # else it was cleaned: a variation selector is gone


@given(st.lists(st.tuples(_NAME, st.one_of(st.just(""), _NAME)), max_size=8))
def test_what_is_joined_comes_apart(people: list[tuple[str, str]]) -> None:
    text = ", ".join(f"{name} ({place})" if place else name for name, place in people)
    assert parse_authors(text) == tuple(Author(name, place) for name, place in people)

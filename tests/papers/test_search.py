from __future__ import annotations

from datetime import date

import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from tests.papers.conftest import WEDNESDAY, noon
from tests.papers.test_store import entry
from webapp.papers.days import DAY
from webapp.papers.entries import Author, Batch
from webapp.papers.models import Listing, Paper
from webapp.papers.search import MAX_PAGES, PAGE, Term, parse, search
from webapp.papers.store import store_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def papers() -> None:
    tuesday = (
        entry(1, title="Sparse attention for lanterns", abstract="Costs of serving.",
              authors=(Author("Ada Quill", "Moss Lab"),), categories=("cs.CL", "cs.LG")),
        entry(2, title="Dense decoding", abstract="No sparse weights: attention is dense.",
              authors=(Author("Lúcia Attention"),), categories=("cs.LG",)),
    )  # fmt: skip
    wednesday = (
        entry(3, title="Quantized boats", abstract="Boats are quantized to four bits.",
              authors=(Author("Bram Ohm"),), categories=("hep-th", "math.CO")),
    )  # fmt: skip
    for day, entries in ((WEDNESDAY - DAY, tuesday), (WEDNESDAY, wednesday)):
        store_batch(Batch("cs.CL", day, entries), Listing.Source.RSS, noon(day), {})


def found(query: str, category: str | None = None, since: date | None = None) -> list[int]:
    papers = search(query, category, since).papers
    return [int(paper.arxiv_id.split(".")[1]) for paper in papers]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("sparse attention", [2, 1]),
        ("Sparse  ATTENTION", [2, 1]),
        ('"sparse attention"', [1]),
        ("ti:attention", [1]),
        ("abs:attention", [2]),
        ("au:attention", [2]),
        ("au:quill", [1]),
        ("lucia", [2] if connection.vendor == "sqlite" else []),
        ("lúcia", [2]),
        ("attention -dense", [1]),
        ("-dense", []),
        ("quantize", [3]),
        ("boat", [3]),
        ("lant*", [1]),
        ("lant", []),
        ("lab", []),  # affiliations are no words of the paper
        ("cs.LG attention", [2, 1]),
        ("cs.CL", [1]),
        ("hep-th", []),  # words, as long as no category is meant beyond doubt
        ("2603.00003", [3]),
        ("arXiv:2603.00003v2", [3]),
        ("https://arxiv.org/abs/2603.00003", [3]),
        ("2603.99999", []),
        ("nowhere", []),
        ("", []),
        ("  ", []),
    ],
)
def test_what_a_query_finds(papers: None, query: str, numbers: list[int]) -> None:
    assert found(query) == numbers


def test_category_and_day_narrow_it(papers: None) -> None:
    assert found("attention", "cs.LG") == [2, 1]
    assert found("attention", "cs.CL") == [1]
    assert found("", "hep-th") == [3]
    assert found("", "hep-ph") == []
    assert found("", "cs") == []
    assert found("attention", since=WEDNESDAY) == []
    assert found("boats", since=WEDNESDAY) == [3]
    assert found("boats", since=WEDNESDAY + DAY) == []
    assert found("", "';--", since=WEDNESDAY - DAY) == []


def test_pages_follow_one_another() -> None:
    entries = tuple(entry(n) for n in range(PAGE + 3))
    store_batch(Batch("cs.CL", WEDNESDAY, entries), Listing.Source.RSS, noon(WEDNESDAY), {})
    first, second, third = (search("boats", page=number) for number in (1, 2, 3))
    assert (len(first.papers), first.has_next) == (PAGE, True)
    assert (len(second.papers), second.has_next) == (3, False)
    assert (third.papers, third.has_next) == ([], False)
    assert not {paper.pk for paper in first.papers} & {paper.pk for paper in second.papers}
    assert search("boats", page=-4).page == 1
    assert search("boats", page=10**9).page == MAX_PAGES


def test_the_index_follows_every_change(papers: None) -> None:
    Paper.objects.filter(arxiv_id="2603.00001").update(title="Zebra unicorns")
    assert found("zebra unicorn") == [1]
    assert found("ti:lanterns") == []
    better = entry(2, version=2, title="Dense zebras", authors=(Author("Cleo Peat"),))
    store_batch(Batch("cs.CL", WEDNESDAY, (better,)), Listing.Source.RSS, noon(WEDNESDAY), {})
    assert found("zebra") == [2, 1]
    assert found("au:peat") == [2]
    assert found("au:lúcia") == []
    Paper.objects.all().delete()
    assert found("zebra") == []


def test_the_index_outlives_every_migration() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT indexname FROM pg_indexes WHERE indexname LIKE '%_search'")
        else:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name")
        names = [name for (name,) in cursor.fetchall()]
    assert names == (
        ["papers_paper_search"]
        if connection.vendor == "postgresql"
        else ["papers_search_add", "papers_search_change", "papers_search_remove"]
    )


def test_terms() -> None:
    assert parse('ti:"long-context  x" -au:Ohm quant*') == [
        Term(("long", "context", "x"), "title"),
        Term(("ohm",), "authors", exclude=True),
        Term(("quant",), prefix=True),
    ]


class Hostile(TestCase):
    @settings(max_examples=150)
    @given(
        st.one_of(
            st.text(max_size=60),
            st.lists(
                st.sampled_from(
                    ["AND", "OR", "NOT", "NEAR(", ")", '"', "'", "*", "-", ":", "ti:", "{a}", "a",
                     "^", "<->", "&", "!", "|", "\\", "%s", "\x00", "NULL", "--", ";", "a*b", "_"]
                ),
                max_size=12,
            ).map("".join),
        ),
        st.one_of(st.none(), st.text(max_size=12)),
    )  # fmt: skip
    def test_no_query_is_an_error(self, query: str, category: str | None) -> None:
        search(query, category)
        search(query, category, WEDNESDAY)

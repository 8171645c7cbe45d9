from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clock import ends_within
from webapp.papers.changes import Span, compare, versions
from webapp.papers.models import Paper, PaperVersion


def test_words_are_compared() -> None:
    assert compare("We count paper boats.", "We count brass  clocks and boats.") == (
        Span("same", "We count"),
        Span("removed", "paper"),
        Span("added", "brass clocks and"),
        Span("same", "boats."),
    )
    assert compare("a\nb", "a b") == ()
    assert compare("", "") == ()


@given(*[st.lists(st.sampled_from("abcde")).map(" ".join)] * 2)
def test_spans_hold_both_texts(old: str, new: str) -> None:
    spans = compare(old, new)
    assert bool(spans) == (old != new)
    if not spans:
        return
    assert " ".join(s.text for s in spans if s.kind != "removed") == new
    assert " ".join(s.text for s in spans if s.kind != "added") == old


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a b " * 5_000, "b a " * 5_000),
        ("a " * 1_400 + "x", "y " + "a " * 1_300),
        (" ".join(map(str, range(1_400))), " ".join(map(str, range(1_400, 0, -1)))),
    ],
)
def test_the_worst_texts_are_compared_in_no_time(old: str, new: str) -> None:
    assert ends_within(2, compare, old, new)


@pytest.mark.django_db
def test_the_latest_change_comes_first() -> None:
    paper = Paper.objects.create(arxiv_id="2603.00001", title="C", abstract="z")
    for number, words in ((1, "A"), (2, "B"), (4, "B")):
        PaperVersion.objects.create(
            paper=paper,
            number=number,
            title=words,
            abstract="z",
            announced_on=date(2026, 3, number),
        )
    *changed, (first, nothing) = versions(paper)
    assert (first.number, nothing) == (1, None)
    assert [(one.number, c and c.old.number) for one, c in changed] == [(4, 2), (2, 1)]
    assert [(bool(c and c.title), bool(c and c.abstract)) for _, c in changed] == [
        (False, False),
        (True, False),
    ]

"""Matches are stored apart from a paper's HTML, and shown in it as they were when it was copied."""

from __future__ import annotations

import re
from itertools import islice

import pytest
from django.db import connection

from tests import factories
from tests.digests.days import MONDAY, announce, profile
from webapp.digests.build import build
from webapp.digests.marks import marks_of, with_marks
from webapp.digests.models import DigestEntry
from webapp.papers.models import Paper
from webapp.papers.sample import load_sample
from webapp.ui.markup import render

WORDS = re.compile(r"\b(?:models?|attention|learning|the|amp|n|mark|2)\b", re.IGNORECASE)
HELD = re.compile(r'<span class="held">|</span>')  # kept on one line; not where a formula is marked
HARD = [
    "AT&T beats amp &amp; amp; <mark>mark</mark> the mark",
    r"$n^2$, $n$ and the $n$; see https://example.org/the?n=2&amp=the for the n",
    r"\textbf{the \emph{attention}} attention of attention-models and {\'e}tude models",
]


def spans_of(text: str) -> list[tuple[int, int, int]]:
    """Every second match, so that most pieces stand unmarked, too."""
    found = islice(WORDS.finditer(text), 0, None, 2)
    return [(one.start(), one.end(), number % 3) for number, one in enumerate(found)]


@pytest.mark.django_db
def test_marks_are_shown_where_they_were_in_every_abstract_of_a_day() -> None:
    load_sample("arXiv cannot be reached")
    texts = [*HARD, *Paper.objects.values_list("abstract", flat=True)]
    assert len(texts) > 30
    for text in texts:
        old = render(text, spans_of(text), links=True)
        marks = marks_of(render(text, spans_of(text)))
        new = with_marks(render(text, links=True), marks)
        assert HELD.sub("", new) == HELD.sub("", old), text
    assert sum(len(spans_of(text)) for text in texts) > 100


def test_marks_follow_a_text_that_changed_as_far_as_it_has_their_words() -> None:
    marks = marks_of(
        'Sparse <mark data-k="0">attention</mark> in <mark data-k="1 2">models</mark> &amp; x'
    )
    assert with_marks("Now attention is <b>models</b>", marks) == (
        'Now <mark data-k="0">attention</mark> is <b><mark data-k="1 2">models</mark></b>'
    )
    assert with_marks('<a href="attention">no</a> &models;', marks) == (
        '<a href="attention">no</a> &models;'
    )


@pytest.mark.django_db
def test_an_entry_takes_no_room_for_its_papers_text() -> None:
    paper = factories.make_paper(10)
    announce(MONDAY, paper)
    mine = profile("Mine", words=["attention"])
    build([MONDAY], [mine])
    [entry] = DigestEntry.objects.all()
    assert '<mark data-k="0">Attention</mark>' in entry.title_html
    table = DigestEntry._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        stored = sum(len(str(value)) for value in cursor.fetchone())
    assert stored < 600 < len(paper.abstract_html)

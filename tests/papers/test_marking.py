"""The words of a query in a text of a paper, marked."""

import re

from hypothesis import given, reject
from hypothesis import strategies as st

from webapp.papers.models import Paper
from webapp.papers.search import parse
from webapp.papers.search.marking import marked
from webapp.papers.search.query import QueryError
from webapp.ui.markup import render


@given(st.text(max_size=60), st.text(max_size=20))
def test_marks_never_change_a_text(text: str, query: str) -> None:
    try:
        terms = parse(query).terms
    except QueryError:
        reject()  # a field that no search has
    paper = Paper(title=text, abstract=text)
    (one,) = marked([paper], terms)
    assert re.sub(r"</?mark[^>]*>", "", one.title_html) == render(text)

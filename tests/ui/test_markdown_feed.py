"""Markdown of a list: a heading for each paper, and no text of a paper is a mark."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from webapp.ui.feeds import FORMATS, Feed, Item

DAY = datetime(2026, 3, 2, tzinfo=UTC)


def written(title: str, summary: str, abstract: str) -> str:
    item = Item(
        *("tag:a,2025:1", "https://a/1", "https://arxiv.org/abs/2603.00001v1", title, summary),
        *("<p>h</p>", ["Ada Cole", "Ben Dale"], ["cs.CL"], DAY, DAY, abstract),
    )
    feed = Feed("tag:a,2025:f", "Mine", "Papers.", "https://a/", "https://a/f", DAY, [item, item])
    return FORMATS["md"].write(feed).decode()


def test_a_day_lists_its_papers_as_headings_with_links() -> None:
    text = written("Sparse attention", "It is faster.", "We propose it.")
    assert "## 2026-03-02\n" in text
    assert "### 1. [Sparse attention](<https://arxiv.org/abs/2603.00001v1>)" in text
    assert "- Authors: Ada Cole, Ben Dale\n- Categories: cs.CL" in text
    assert text.count("## 2026-03-02") == 1
    assert "### 2. " in text


texts = st.text("ab <>[]()*_#`\\!&-+1.)|~\n", max_size=40)


@given(texts, texts, texts)
def test_hostile_texts_add_no_tag_no_link_and_no_heading(title: str, gist: str, body: str) -> None:
    html = MarkdownIt().render(written(f"T {title}", f"G {gist}", f"B {body}"))
    assert html.count("<a ") == 2
    assert html.count("<h3>") == 2
    for tag in ("<em", "<strong", "<code", "<img", "<script", "<table", "<h4", "<hr"):
        assert tag not in html

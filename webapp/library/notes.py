"""A reader's note: Markdown to HTML. `sanitised_blocks` stands between it and the page."""

from __future__ import annotations

from markdown_it import MarkdownIt

_READER = MarkdownIt("commonmark", {"html": False, "linkify": False}).disable("image")


def html(text: str) -> str:
    """CommonMark without raw HTML and pictures."""
    return str(_READER.render(text))

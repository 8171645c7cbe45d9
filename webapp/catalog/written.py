"""A method's written results as pages: the Markdown files of its folder, README first.

An argued answer links to the heading that gives its reasons.
"""

from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlencode

import nh3
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt

from methods import registry

_TAGS = {
    *("a", "blockquote", "br", "code", "em", "h1", "h2", "h3", "h4", "hr", "li", "ol", "p", "pre"),
    *("strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
_HEADINGS = {f"h{level}": {"id"} for level in range(1, 5)}


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
# Charts stand on the page of the run that drew them.
_MARKDOWN.add_render_rule("image", lambda *_: "")


def paths(slug: str) -> tuple[str, ...]:
    """The documents of a method by name."""
    names = (path.name for path in registry.folder(slug).glob("*.md"))
    return tuple(sorted(names, key=lambda name: (name != "README.md", name)))


def html(slug: str, path: str) -> SafeString:
    """One of the `paths` of a method as sanitised HTML whose headings can be linked to."""
    source = registry.folder(slug) / path
    return _rendered(source, paths(slug), source.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _rendered(source: Path, linked: tuple[str, ...], _written: int) -> SafeString:
    """The file's time is an argument so that a page follows its source."""
    tokens = _MARKDOWN.parse(source.read_text(encoding="utf-8"))
    for opening, text in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", slugify(text.content))

    def link(tag: str, name: str, value: str) -> str | None:
        """Addresses of the web, and of the method's other documents; no file is on the page."""
        if name != "href" or value.startswith(("https://", "http://", "#")):
            return value
        path, _, heading = value.partition("#")
        return f"?{urlencode({'file': path})}#{heading}" if path in linked else None

    cleaned = nh3.clean(
        _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}),
        tags=_TAGS,
        attributes={"a": {"href"}, **_HEADINGS},
        attribute_filter=link,
        url_schemes={"http", "https"},
    )
    # Content wider than a phone scrolls in its own box, by keyboard too.
    markup = (
        cleaned.replace("<pre>", '<pre tabindex="0">')
        .replace("<th></th>", "<td></td>")  # the corner of a table heads nothing
        .replace("<table>", '<div class="table-scroll" tabindex="0"><table>')
        .replace("</table>", "</table></div>")
    )
    return mark_safe(markup)  # noqa: S308

"""arXiv's HTML (made by LaTeXML) as sections of plain text, formulas as TeX, tables as rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import html as lxml_html
from lxml.etree import ParserError

_DROP = {"script", "style", "nav", "footer", "button", "svg", "form", "noscript", "iframe"}
_DROP_CLASS = re.compile(
    r"\bltx_(?:bibliography|page_(?:header|footer|navbar)|TOC|note_mark|ERROR)\b"
)
_SECTION_CLASS = re.compile(r"\bltx_(?:section|subsection|appendix|abstract)\b")
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCK = {
    *("p", "div", "section", "li", "tr", "figure", "figcaption", "table", "dt", "dd", "pre"),
    *_HEADINGS,
}
_SPACES = re.compile(r"[ \t\r\f\v]+")


class UnreadableError(Exception):
    """A document holds no text that could be read; the message says what was wrong."""


@dataclass(frozen=True)
class Section:
    """A heading and the words under it."""

    title: str
    text: str


def sections_of_html(body: bytes) -> list[Section]:
    """The sections of an arXiv HTML page, bibliography and navigation left out.

    Raises UnreadableError where the page holds no paper.
    """
    try:
        root = lxml_html.document_fromstring(body, parser=lxml_html.HTMLParser(encoding="utf-8"))
    except (ParserError, ValueError) as error:
        raise UnreadableError(f"the HTML could not be parsed: {error}") from error
    walker = _Walker()
    article = root.find(".//article")
    walker.walk(article if article is not None else root)
    sections = walker.sections()
    if sum(len(s.text) for s in sections) < 500:
        raise UnreadableError("the HTML page holds no paper")
    return sections


class _Walker:
    """Collects words in reading order; a section's element opens a new list of them."""

    def __init__(self) -> None:
        self._parts: list[tuple[list[str], list[str]]] = [([], [])]  # (title words, text words)
        self._has_text = False  # the open section holds words beyond its title

    def sections(self) -> list[Section]:
        made = (Section(_plain("".join(t)), _plain("".join(w))) for t, w in self._parts)
        return [s for s in made if s.text]

    def _add(self, words: str, in_title: bool) -> None:
        self._parts[-1][0 if in_title else 1].append(words)
        self._has_text = self._has_text or not (in_title or words.isspace() or not words)

    def walk(self, root: lxml_html.HtmlElement) -> None:
        # An explicit stack: a hostile page may nest deeper than Python recurses.
        stack: list[tuple[lxml_html.HtmlElement | str, bool]] = [(root, False)]
        while stack:
            node, in_title = stack.pop()
            if isinstance(node, str):
                self._add(node, in_title)
                continue
            tag = node.tag if isinstance(node.tag, str) else ""
            css = node.get("class") if tag else None
            if not tag or tag in _DROP or (css and _DROP_CLASS.search(css)):
                continue
            if tag == "math":
                self._add(f" ${node.get('alttext') or ''}$ ", in_title)
                continue
            if css and _SECTION_CLASS.search(css):
                self._parts.append(([], []))
                self._has_text = False
            titled = in_title or (tag in _HEADINGS and not self._has_text)
            # What is pushed last is read first: the end of the element goes in before its words.
            if tag in _BLOCK:
                stack.append(("\n", titled))
            if tag in {"td", "th"}:
                stack.append((" | ", titled))
            for child in reversed(node):
                if child.tail:
                    stack.append((child.tail, titled))
                stack.append((child, titled))
            if node.text:
                stack.append((node.text, titled))


def _plain(text: str) -> str:
    lines = (_SPACES.sub(" ", line).strip() for line in text.splitlines())
    return re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()

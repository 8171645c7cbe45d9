"""arXiv's HTML (made by LaTeXML) as sections of plain text, formulas as TeX, tables as rows."""

import re
from dataclasses import dataclass
from itertools import islice

from lxml import html as lxml_html
from lxml.etree import ParserError

from webapp.claims.tables.grid import grids_of
from webapp.claims.tables.reading import Table
from webapp.papers.proposal import SENTENCE_END
from webapp.papers.repositories import offered

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
# Of tables that are no grid: one row, one column, or only an arrangement of others.
_CELL_CLASS = re.compile(r"\bltx_t[dh]\b")
_ROW_CLASS = re.compile(r"\bltx_tr\b")
_SPACES = re.compile(r"[ \t\r\f\v]+")
# Private use, no paper's own: where a section begins, and a heading within it.
_SECTION, _OPEN, _CLOSE = "\ue000", "\ue001", "\ue002"
_TITLE = re.compile(rf"(?:\s*{_OPEN}[^{_CLOSE}]*{_CLOSE})*")
_MARKS = re.compile(f"[{_OPEN}{_CLOSE}]")


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
        article = root.find(".//article")
        paper = root if article is None else article
        for tabular, grid in list(grids_of(paper)):
            _write_rows(tabular, Table(grid).markdown())
        for node in list(paper.iter("*")):
            _mark(node)
    except (ParserError, ValueError) as error:
        raise UnreadableError(f"the HTML could not be parsed: {error}") from error
    sections = []
    for part in paper.text_content().split(_SECTION):
        title = _TITLE.match(part)
        end = title.end() if title else 0
        sections.append(Section(_plain(part[:end]), _plain(part[end:])))
    sections = [section for section in sections if section.text]
    if sum(len(s.text) for s in sections) < 500:
        raise UnreadableError("the HTML page holds no paper")
    return sections


MAX_PARAGRAPHS = 5_000


def code_of_html(body: bytes) -> str:
    """The repository that a paper's HTML offers as the authors' code; "" where none or several.

    Links are read with their addresses, footnotes where they stand; bibliography left out.
    """
    try:
        root = lxml_html.document_fromstring(body, parser=lxml_html.HTMLParser(encoding="utf-8"))
    except (ParserError, ValueError):
        return ""
    for node in list(root.iter("*")):
        if node.tag in _DROP or node.tag == "math" or _DROP_CLASS.search(node.get("class") or ""):
            node.clear(keep_tail=True)
        elif node.tag == "a" and (address := node.get("href") or "").startswith("http"):
            node.text = f" {address} "
            del node[:]
    paragraphs = islice(root.iter("p"), MAX_PARAGRAPHS)
    texts = (" ".join(paragraph.text_content().split()) for paragraph in paragraphs)
    return offered(sentence for text in texts for sentence in SENTENCE_END.split(text))


def _write_rows(tabular: lxml_html.HtmlElement, rows: str) -> None:
    """Put the rows of a table, as Markdown, where its cells stood."""
    tabular.clear(keep_tail=True)
    tabular.text = f"\n{rows}\n"


def _mark(node: lxml_html.HtmlElement) -> None:
    """Empty what is no text of the paper, write formulas as TeX, and mark where parts end."""
    css = node.get("class") or ""
    formula, end = _formula(node) if node.tag == "math" else "", ""
    if node.tag in _DROP or node.tag == "math" or _DROP_CLASS.search(css):
        node.clear(keep_tail=True)
        node.text = f" ${formula}$ " if node.tag == "math" else None
    elif node.tag in _HEADINGS:
        node.text, end = _OPEN + (node.text or ""), f"{_CLOSE}\n"
    elif node.tag in _BLOCK or _ROW_CLASS.search(css):
        end = "\n"
    elif node.tag in {"td", "th"} or _CELL_CLASS.search(css):
        end = " | "
        node.tail = (node.tail or "").strip()  # LaTeXML breaks the line between all cells
    if _SECTION_CLASS.search(css):
        node.text = _SECTION + (node.text or "")
    if end:
        node.tail = end + (node.tail or "")


def _formula(math: lxml_html.HtmlElement) -> str:
    """The TeX of a formula: its alttext, its annotation, else what its MathML shows."""
    if alttext := (math.get("alttext") or "").strip():
        return alttext
    for annotation in math.iter("annotation"):
        if "tex" in (annotation.get("encoding") or "") and (annotation.text or "").strip():
            return str(annotation.text).strip()
    return _shown(math, 0)


_BETWEEN = {"msup": "^", "mover": "^", "msub": "_", "munder": "_", "mfrac": "/"}


def _shown(node: lxml_html.HtmlElement, depth: int) -> str:
    if node.tag in {"annotation", "annotation-xml"} or depth > 50:
        return ""
    parts = [part for child in node if (part := _shown(child, depth + 1))]
    if sign := _BETWEEN.get(node.tag):
        return sign.join(part if len(part) == 1 else f"{{{part}}}" for part in parts)
    if node.tag in {"msubsup", "munderover"} and len(parts) == 3:
        return f"{parts[0]}_{{{parts[1]}}}^{{{parts[2]}}}"
    return (node.text or "").strip() + "".join(parts)


def _plain(text: str) -> str:
    lines = (_SPACES.sub(" ", line).strip() for line in _MARKS.sub("", text).splitlines())
    return re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()

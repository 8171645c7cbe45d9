"""arXiv's HTML (made by LaTeXML) as sections of plain text, formulas as TeX, tables as rows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from lxml.etree import ParserError
from lxml.html import HtmlElement

from webapp.claims.tables.grid import grids_of
from webapp.claims.tables.reading import Table
from webapp.core.sandbox import UnreadableError
from webapp.papers.latexml import Line, Write, parse, plain_tex, read, without_colours
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
_SCRIPT = re.compile(r"(?:\{\})?[_^](?:\{[^{}]*\}|.)")  # a formula that is only raised or lowered
_MARKS = re.compile(f"[{_OPEN}{_CLOSE}]")


@dataclass(frozen=True)
class Section:
    """A heading and the words under it."""

    title: str
    text: str


def sections_of_html(body: bytes) -> list[Section]:
    """The sections of an arXiv HTML page, bibliography and navigation left out.

    Raises UnreadableError if the page holds no paper.
    """
    try:
        root = parse(body)
        article = root.find(".//article")
        paper = root if article is None else article
        tables = {tabular: Table(grid).markdown() for tabular, grid in grids_of(paper)}
        text = "".join(_with_note(line) for line in read(paper, _writer(tables), _around))
    except (ParserError, ValueError) as error:
        raise UnreadableError(f"the HTML could not be parsed: {error}") from error
    sections = []
    for part in text.split(_SECTION):
        title = _TITLE.match(part)
        end = title.end() if title else 0
        sections.append(Section(_plain(part[:end]), _plain(part[end:])))
    sections = [section for section in sections if section.text]
    if sum(len(s.text) for s in sections) < 500:
        raise UnreadableError("the HTML page holds no paper")
    return sections


def _with_note(line: Line) -> str:
    """A piece of text with the note beside its number, which is no part of it: "85 [1]"."""
    return f"{line.text} [{line.note}]" if line.note else line.text


MAX_PARAGRAPHS = 5_000
_PARAGRAPH = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")


def code_of_html(body: bytes) -> str:
    """The repository that a paper's HTML offers as the authors' code; "" if none or several.

    Links are read with their addresses, footnotes where they stand; bibliography left out.
    """

    def write(node: HtmlElement, line: str) -> Line | None:
        if node.tag == "math" or _is_dropped(node):
            return Line("")
        address = node.get("href") or ""
        return Line(f" {address} ") if node.tag == "a" and address.startswith("http") else None

    def around(node: HtmlElement) -> tuple[str, str]:
        return (_OPEN, _CLOSE) if node.tag == "p" else ("", "")

    try:
        text = "".join(line.text for line in read(parse(body), write, around))
    except (ParserError, ValueError):
        return ""
    paragraphs = islice(_PARAGRAPH.finditer(text), MAX_PARAGRAPHS)
    texts = (" ".join(paragraph[1].split()) for paragraph in paragraphs)
    return offered(sentence for text in texts for sentence in SENTENCE_END.split(text))


def _is_dropped(node: HtmlElement) -> bool:
    return node.tag in _DROP or bool(_DROP_CLASS.search(node.get("class") or ""))


def _writer(tables: Mapping[HtmlElement, str]) -> Write:
    def write(node: HtmlElement, line: str) -> Line | None:
        if node in tables:
            return Line(f"\n{tables[node]}\n")
        if _is_dropped(node):
            return Line("")
        if node.tag == "math":
            formula = without_colours(_formula(node))
            is_script = _SCRIPT.fullmatch(formula) and line[-1:].isdigit()
            return plain_tex(formula, line) if is_script else Line(f" ${formula}$ ")
        return None

    return write


def _around(node: HtmlElement) -> tuple[str, str]:
    """Return the marks around a section, heading, block or cell."""
    css = node.get("class") or ""
    opening = _SECTION if _SECTION_CLASS.search(css) else ""
    if node.tag in _HEADINGS:
        return opening + _OPEN, f"{_CLOSE}\n"
    if node.tag in _BLOCK or _ROW_CLASS.search(css):
        return opening, "\n"
    is_cell = node.tag in {"td", "th"} or _CELL_CLASS.search(css)
    return opening, " | " if is_cell else ""


def _formula(math: HtmlElement) -> str:
    """The TeX of a formula: its alttext, its annotation, else its characters."""
    if alttext := (math.get("alttext") or "").strip():
        return alttext
    for annotation in math.iter("annotation"):
        if "tex" in (annotation.get("encoding") or "") and (annotation.text or "").strip():
            return str(annotation.text).strip()
    return str(math.text_content()).strip()


def _plain(text: str) -> str:
    lines = (_SPACES.sub(" ", line).strip() for line in _MARKS.sub("", text).splitlines())
    return re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()

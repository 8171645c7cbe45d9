"""A validated summary as HTML, rendered once; numbers that the text does not hold are marked."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

import nh3
from django.template.loader import render_to_string
from django.utils.html import format_html
from markdown_it import MarkdownIt

from webapp.claims.tables.shown import ShownTable
from webapp.ui.formulas import mathml
from webapp.ui.markup import plain, sanitise, sanitise_blocks

from .agreement import check_statement
from .paper_text import PaperText
from .passages import Passages
from .schema import PaperSummary, SummaryTable

_HEADINGS = json.loads(Path(__file__).with_name("headings.json").read_text("utf-8"))


LONGEST_PASSAGE = 600  # characters of a passage that are shown


@dataclass(frozen=True)
class SummaryLine:
    """A statement of a summary as HTML, and what it rests on."""

    html: str
    passage: str = ""  # the paper's own sentence
    is_reading: bool = False  # none was found: it is the model's reading


@dataclass
class _Marking:
    """Renderer of lines against the paper's text, with a count of unverified numbers."""

    truth: PaperText
    language: str
    tables: Sequence[ShownTable] = ()
    missing: int = 0  # numbers that do not stand in the text, and statements that it contradicts

    def stands(self, number: str) -> bool:
        is_there = _has_number(number, self.truth)
        self.missing += not is_there
        return is_there

    def line(self, text: str) -> str:
        html = render_line(text, self.stands)
        if not (sentence := check_statement(text, self.truth, self.tables).otherwise):
            return html
        self.missing += 1
        says = format_html(
            ' <mark class="unverified">{}</mark> <em>“{}”</em>',
            _HEADINGS[self.language]["otherwise"],
            plain(sentence),
        )
        return html + says

    @cached_property
    def passages(self) -> Passages:
        return Passages(self.truth)

    def lines(self, key: str, section: object) -> list[SummaryLine]:
        """Return the lines to show, each with the passage of the paper that it rests on.

        A limitation without one is not shown: models invent these ("Only English was tested").
        """
        statements: list[str] = getattr(section, key)
        shown = []
        for statement in statements:
            passage = self.passages.passage(plain(statement))
            if passage or key != "limitations":
                quote = plain(passage[:LONGEST_PASSAGE])
                shown.append(SummaryLine(self.line(statement), quote, is_reading=not passage))
        return shown

    def table(self, table: SummaryTable) -> dict[str, object]:
        width = len(table.columns)
        return {
            "title": self.line(table.title),
            "columns": [self.line(c) for c in table.columns],
            "rows": [[self.line(c) for c in (row + [""] * width)[:width]] for row in table.rows],
        }


def _has_number(number: str, truth: PaperText) -> bool:
    """True if the text has a number: "128K", or "8B" as the 8 of a name."""
    return truth.holds_number(number) or truth.holds_number(number.rstrip("KMB"))


def render_summary(
    summary: PaperSummary, truth: PaperText, language: str, tables: Sequence[ShownTable] = ()
) -> tuple[dict[str, str], int]:
    """The columns that a page shows, and how many numbers are marked as not in the text.

    `gist` is plain text; `gist_html` and `html`, the sections, are sanitised.
    """
    marking = _Marking(truth, language, tables)
    headings = _HEADINGS[language]
    sections = []
    for name in ("contributions", "experiments", "results", "conclusions"):
        section = getattr(summary, name)
        groups = [
            (headings[key], marking.lines(key, section))
            for key in type(section).model_fields
            if key != "tables"
        ]
        shown = [marking.table(t) for t in getattr(section, "tables", [])]
        sections.append(
            {"title": headings[name], "groups": [g for g in groups if g[1]], "tables": shown}
        )
    context = {"sections": sections, "language": language, "headings": headings}
    html = render_to_string("summaries/content.html", context)
    columns = {
        "gist": plain_line(summary.gist, lambda number: _has_number(number, truth)),
        "gist_html": marking.line(summary.gist),
        "html": sanitise_blocks(html),
    }
    return columns, marking.missing


# One line of a model's Markdown, with TeX, as safe HTML: only bold, emphasis and code are rendered,
# no links, images or headings. Formulas are taken out before Markdown is parsed, and everything
# goes through nh3 at the end.

MAX_LINE = 4_000  # characters; the rest is not shown
_MARKDOWN = MarkdownIt("zero", {"html": False}).enable(["emphasis", "backticks", "escape"])
_FORMULA = re.compile(r"\$\$?([^$\n]{1,1000})\$\$?|\\\((.{1,1000}?)\\\)")
_KEEP, _OPEN, _CLOSE = "\ue000", "\ue001", "\ue002"  # private use: stripped from the input
_PRIVATE = re.compile(f"[{_KEEP}{_OPEN}{_CLOSE}\x00-\x08\x0b-\x1f]")
# A number; one within a name, such as Llama-3-8B, is none.
_NUMBER = re.compile(
    r"(?P<name>(?<![A-Za-z0-9_-])[A-Za-z][A-Za-z0-9_.]*(?:-[A-Za-z0-9_.]*[A-Za-z0-9_])+)"
    r"|(?<![A-Za-z0-9_.^])(?<![A-Za-z]-)\d+(?:[.,]\d+)*(?:[KMB](?!\w))?"
)
_MISSING = '<mark class="unverified" title="This number was not found in the text">'


def render_line(text: str, stands: Callable[[str], bool] = lambda _: True) -> str:
    """`text` as sanitised inline HTML; numbers for which `stands` is false are marked."""
    formulas: list[str] = []

    def set_aside(match: re.Match[str]) -> str:
        source = match[1] or match[2]
        html = sanitise(mathml(source) or f'<code class="tex">{escape(match[0])}</code>')
        missing = any(not stands(n[0]) for n in _NUMBER.finditer(source) if not n["name"])
        formulas.append(f"{_MISSING}{html}</mark>" if missing else html)
        return _KEEP

    text = _FORMULA.sub(set_aside, _PRIVATE.sub("", text)[:MAX_LINE])
    text = _each_number(text, lambda n: n if stands(n) else f"{_OPEN}{n}{_CLOSE}")
    html = str(_CLEANER.clean(_MARKDOWN.renderInline(text)))
    html = html.replace(_OPEN, _MISSING).replace(_CLOSE, "</mark>")
    return re.sub(_KEEP, lambda _: formulas.pop(0), html)


def _each_number(text: str, written: Callable[[str], str]) -> str:
    return _NUMBER.sub(lambda match: match[0] if match["name"] else written(match[0]), text)


def plain_line(text: str, stands: Callable[[str], bool] = lambda _: True) -> str:
    """`text` without Markdown; numbers for which `stands` is false get "[unverified]"."""
    text = _each_number(text[:MAX_LINE], lambda n: n if stands(n) else f"{n} [unverified]")
    return " ".join(re.sub(r"\*\*|__|`", "", _PRIVATE.sub("", text)).split())


_CLEANER = nh3.Cleaner(tags={"em", "strong", "code"}, attributes={}, url_schemes=set())

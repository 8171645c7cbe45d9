"""A validated summary as HTML, rendered once; numbers that the text does not hold are marked."""

import json
from dataclasses import dataclass
from pathlib import Path

from django.template.loader import render_to_string
from django.utils.html import format_html

from webapp.ui.markdown import plain_line, render_line
from webapp.ui.markup import plain, sanitise_blocks

from .agreement import contradicting
from .paper_text import PaperText
from .schema import PaperSummary, SummaryTable

_HEADINGS = json.loads(Path(__file__).with_name("headings.json").read_text("utf-8"))


@dataclass
class _Marking:
    """Renders lines against the paper's text, and counts what did not stand there."""

    truth: PaperText
    language: str
    missing: int = 0  # numbers that do not stand in the text, and statements that it contradicts

    def stands(self, number: str) -> bool:
        found = self.truth.holds_number(number)
        self.missing += not found
        return found

    def line(self, text: str) -> str:
        html = render_line(text, self.stands)
        if not (sentence := contradicting(text, self.truth)):
            return html
        self.missing += 1
        says = format_html(
            ' <mark class="unverified">{}</mark> <em>“{}”</em>',
            _HEADINGS[self.language]["otherwise"],
            plain(sentence),
        )
        return html + says

    def table(self, table: SummaryTable) -> dict[str, object]:
        width = len(table.columns)
        return {
            "title": self.line(table.title),
            "columns": [self.line(c) for c in table.columns],
            "rows": [[self.line(c) for c in (row + [""] * width)[:width]] for row in table.rows],
        }


def render_summary(
    summary: PaperSummary, truth: PaperText, language: str
) -> tuple[dict[str, str], int]:
    """The columns that a page shows, and how many numbers are marked as not in the text.

    `gist` is plain text; `gist_html` and `html`, the sections, are sanitised.
    """
    marking = _Marking(truth, language)
    words = _HEADINGS[language]
    sections = []
    for name in ("contributions", "experiments", "results", "conclusions"):
        section = getattr(summary, name)
        groups = [
            (words[key], [marking.line(line) for line in getattr(section, key)])
            for key in type(section).model_fields
            if key != "tables"
        ]
        tables = [marking.table(t) for t in getattr(section, "tables", [])]
        sections.append(
            {"title": words[name], "groups": [g for g in groups if g[1]], "tables": tables}
        )
    html = render_to_string("summaries/content.html", {"sections": sections, "language": language})
    columns = {
        "gist": plain_line(summary.gist, truth.holds_number),
        "gist_html": marking.line(summary.gist),
        "html": sanitise_blocks(html),
    }
    return columns, marking.missing

"""Template tags for what a paper reports: its tables, and quotes of its abstract."""

from django import template
from django.template import Context
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from webapp.claims import corrections
from webapp.claims.corrections import AppliedCorrection, Kind
from webapp.claims.extraction.quotes import Quote, with_bold
from webapp.claims.tables.cells import described
from webapp.claims.tables.grid import Cell
from webapp.claims.tables.shown import ShownTable, ShownTables, tables_of
from webapp.papers.models import Paper
from webapp.papers.proposal import in_two_lines, what_it_did
from webapp.ui.markup import render

register = template.Library()


@register.simple_tag(takes_context=True)
def headline_quote(context: Context, paper: Paper) -> Quote | None:
    """Return the quote that a row shows of a paper, below its gist or what it did."""
    gist = getattr(context.get("entry"), "gist", "")
    said = gist or in_two_lines(what_it_did(paper.abstract, paper.title))
    return corrections.headline_of(paper, said)


@register.filter
def with_results_bold(sentence: str, paper: Paper) -> SafeString:
    """Return a sentence of a paper's abstract as HTML, the numbers that it reports bold."""
    start = paper.abstract.find(sentence[1:].removesuffix(" …")) - 1  # its capital may be ours
    end = start + len(sentence)
    places = [
        (number.start - start, number.end - start)
        for quote in corrections.quotes_of(paper)
        for number in quote.numbers
        if 0 <= start <= number.start and number.end <= end
    ]
    return mark_safe(with_bold(sentence, places))  # noqa: S308 - `render` sanitises it


@register.filter
def why_no_tables(reason: str) -> str:
    """Return in a reader's words why a reading has no tables; the reason is an operator's."""
    if reason.startswith("no HTML"):
        return gettext("This paper has no HTML version.")
    return gettext("No table could be read from its HTML version.")


@register.filter
def bold_numbers(quote: Quote) -> SafeString:
    """Return a quote as HTML, its numbers bold."""
    return mark_safe(quote.html)  # noqa: S308 - `render` sanitises each piece


@register.filter
def with_numbers_marked(paper: Paper) -> SafeString:
    """Return an abstract as HTML, the numbers that it reports marked."""
    numbers = {(n.start, n.end) for quote in corrections.quotes_of(paper) for n in quote.numbers}
    marks = [(start, end, i) for i, (start, end) in enumerate(sorted(numbers))]
    return mark_safe(render(paper.abstract, marks, links=True))  # noqa: S308 - it sanitises


@register.simple_tag
def corrections_of(paper: Paper, *kinds: str) -> list[AppliedCorrection]:
    """Return the corrections of some kinds that count for a paper."""
    return corrections.changes(paper, *kinds)


@register.simple_tag
def tables_of_paper(paper: Paper) -> ShownTables:
    """Return the tables that were read of a paper."""
    return tables_of(paper)


@register.filter
def css_class(shown: ShownTable, cell: Cell) -> str:
    """The classes of a cell of the body: a row's label, in the own column, best of its column."""
    names = (
        ("row-label", shown.is_label(cell)),
        ("own", cell.column in shown.own_columns),
        ("best", shown.is_best(cell)),
    )
    return " ".join(name for name, holds in names if holds)


@register.filter
def spans(cell: Cell) -> SafeString:
    """The attributes of a cell that stands over several rows or columns."""
    wide = (("colspan", cell.columns), ("rowspan", cell.rows))
    return format_html_join(" ", '{}="{}"', (pair for pair in wide if pair[1] > 1))


@register.filter
def marked(cell: Cell) -> SafeString:
    """The text of a cell with its note, bold, underlined or coloured as the paper has it."""
    tag = "b" if cell.is_bold else "u" if cell.is_underlined else "span"
    note = format_html(" <sup>{}</sup>", cell.note) if cell.note else ""
    css = mark_safe(' class="coloured"') if cell.is_coloured else ""
    text: str = cell.text
    if cell.instead_of:
        title = gettext("Corrected by a reader. The paper’s HTML has: %(text)s")
        text = format_html('<ins title="{}">{}</ins>', title % {"text": cell.instead_of}, cell.text)
    return format_html("<{0}{1}>{2}{3}</{0}>", tag, css, text, note)


@register.filter
def cell_place(subject: str) -> str:
    """The place of a corrected cell: its table, row and heads."""
    return described(subject)[0]


@register.filter
def cell_text(subject: str) -> str:
    """The text of a corrected cell in the paper's HTML."""
    return described(subject)[1]


@register.filter
def gone_cells(paper: Paper) -> frozenset[str]:
    """The corrected cells of a paper that its tables no longer have."""
    return tables_of(paper).gone if corrections.corrected(paper, Kind.CELL) else frozenset()

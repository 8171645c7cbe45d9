"""The tables of a paper, for its page."""

from collections.abc import Mapping, Sequence

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from webapp.claims.extraction.claims import RuleClaim
from webapp.claims.numbers_across import links_of
from webapp.claims.tables.grid import Cell
from webapp.claims.tables.shown import ShownTable, ShownTables, tables_of
from webapp.papers.models import Paper

register = template.Library()
register.simple_tag(links_of, name="number_links")


@register.simple_tag
def tables_of_paper(paper: Paper) -> ShownTables:
    """What was read of a paper's tables."""
    return tables_of(paper)


@register.simple_tag
def tuples(claims: Sequence[RuleClaim], links: Mapping[int, str]) -> list[tuple[RuleClaim, str]]:
    """The numbers of an abstract of which it is sure what they are of, each with its quantity."""
    return [(claim, links.get(claim.start, "")) for claim in claims if claim.relation]


@register.filter
def quantity(shown: ShownTable, cell: Cell) -> str:
    """The query string of the quantity that a cell reports, or ""."""
    return shown.quantity(cell)


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
    """The text of a cell, bold or underlined as the paper has it."""
    tag = "b" if cell.is_bold else "u" if cell.is_underlined else "span"
    return format_html("<{0}>{1}</{0}>", tag, cell.text)

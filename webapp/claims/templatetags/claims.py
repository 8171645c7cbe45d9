"""The tables of a paper, for its page."""

from django import template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from webapp.claims.tables.grid import Cell
from webapp.claims.tables.shown import ShownTables, tables_of
from webapp.papers.models import Paper

register = template.Library()


@register.simple_tag
def tables_of_paper(paper: Paper) -> ShownTables:
    """What was read of a paper's tables."""
    return tables_of(paper)


@register.filter
def spans(cell: Cell) -> SafeString:
    """The attributes of a cell that stands over several rows or columns."""
    wide = (("colspan", cell.columns), ("rowspan", cell.rows))
    return format_html_join(" ", '{}="{}"', (pair for pair in wide if pair[1] > 1))

"""The methods a paper concerns, for the paper's page; and how numbers are written."""

import shlex
from typing import Any

import nh3
from django import template
from django.template import Context
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from assay_common.quantities import number
from webapp.catalog import reading
from webapp.catalog.models import MethodLink
from webapp.catalog.paper_methods import PaperMethod, beside, methods_of
from webapp.catalog.verdicts import Figure
from webapp.claims.corrections import quotes_of
from webapp.learning.similar import similar
from webapp.papers.models import Paper
from webapp.summaries.queries import PaperSummaryView

register = template.Library()
register.simple_tag(methods_of, name="methods_about")
register.filter(number)

PHRASES = 3  # shown as the reasons of a link
_COLOURED = nh3.Cleaner(tags={"span"}, attributes={"span": {"class"}})


@register.inclusion_tag("catalog/paper_claims.html", takes_context=True)
def paper_claims(
    context: Context, view: PaperSummaryView, methods: list[PaperMethod]
) -> dict[str, Any]:
    """Give a model's claims, each with the figure that may stand beside it."""
    page = {name: context[name] for name in ("request", "user", "paper")}
    return page | {"view": view, "claims": beside(view.claims, methods)}


@register.simple_tag
def implement_command(paper: Paper) -> str:
    """Return the command that writes a package for a paper, with its ratios; "" without one."""
    ratios = [quote.text for quote in quotes_of(paper) if any(n.unit == "×" for n in quote.numbers)]
    if not ratios:
        return ""
    quoted = "".join(f" \\\n  --quote {shlex.quote(ratio)}" for ratio in ratios)
    return f"python -m methods new my_method --to my-method --paper {paper.arxiv_id}{quoted}"


@register.inclusion_tag("catalog/similar.html")
def similar_papers(paper: Paper) -> dict[str, Any]:
    """Papers that say much the same."""
    return {"papers": similar(paper), "like": paper.arxiv_id}


def highlighted(html: str) -> SafeString:
    """A line of source coloured by pygments: words in spans of a class, and nothing else."""
    return mark_safe(_COLOURED.clean(html))  # noqa: S308


@register.simple_tag
def source_row(file: reading.File, row: reading.SourceLine) -> SafeString:
    """One numbered line of source, with what it bound; inside `pre`, where every space shows."""
    anchor = f"{file.anchor}-L{row.number}"
    bound = format_html_join(
        "", '<span class="bound">{}</span>', ((tensor,) for tensor in row.tensors)
    )
    return format_html(
        '<span class="row" id="{}"><a class="at" href="#{}" aria-label="{}, line {}">{}</a>{}\n'
        "{}</span>",
        *(anchor, anchor, file.path, row.number, row.number, highlighted(row.html), bound),
    )


@register.filter
def phrases(link: MethodLink) -> list[str]:
    """The strongest words and phrases for a link, each once."""
    supporting = (str(piece["words"]) for piece in link.evidence if piece["weight"] >= 0)
    unique = {phrase.casefold(): phrase for phrase in supporting}
    return list(unique.values())[:PHRASES]


@register.filter
def counted(figure: Figure) -> str:
    """Return the count, or the range of the counts if they differ."""
    return "–".join(dict.fromkeys(number(end, 3) for end in (figure.low, figure.high)))

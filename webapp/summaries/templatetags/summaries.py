"""A paper's summary and claims, for the pages of other apps."""

from typing import Any

from django import template

from webapp.papers.models import Paper
from webapp.summaries import queries
from webapp.summaries.client import Server
from webapp.summaries.models import Summary
from webapp.ui.language import current_language

register = template.Library()


@register.simple_tag(takes_context=True)
def summary_of(context: dict[str, Any], paper: Paper) -> queries.PaperSummaryView:
    """A paper's summary, the state of one in progress, or the claims that rules extract."""
    return queries.of_paper(paper, context["request"].GET.get("language", current_language()))


@register.simple_tag
def a_model_is_configured() -> bool:
    """Whether this site has a model that summarises."""
    return Server.configured() is not None


@register.filter
def language_name(code: str) -> str:
    """What speakers of a language call it."""
    return str(Summary.Language(code).label)

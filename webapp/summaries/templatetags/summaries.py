"""A paper's summary and claims, for the pages of other rooms."""

from typing import Any

from django import template

from webapp.papers.models import Paper
from webapp.summaries import queries
from webapp.summaries.client import Server
from webapp.summaries.models import Summary
from webapp.ui.language import current_language

register = template.Library()


@register.inclusion_tag("summaries/panel.html", takes_context=True)
def paper_summary(context: dict[str, Any], paper: Paper) -> dict[str, Any]:
    """The summary of a paper, the state of one under way, or what the rules take from it."""
    shared = {name: context.get(name) for name in ("user", "request", "csrf_token")}
    view = queries.of_paper(paper, context["request"].GET.get("language", current_language()))
    return {**shared, "paper": paper, "view": view}


@register.simple_tag
def a_model_is_configured() -> bool:
    """Whether this site has a model that summarises."""
    return Server.configured() is not None


@register.filter
def language_name(code: str) -> str:
    """What speakers of a language call it."""
    return str(Summary.Language(code).label)

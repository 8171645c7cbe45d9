"""A paper's summary and claims, for the pages of other rooms."""

from __future__ import annotations

from typing import Any

from django import template

from webapp.papers.models import Paper
from webapp.summaries import queries

register = template.Library()


@register.inclusion_tag("summaries/panel.html", takes_context=True)
def paper_summary(context: dict[str, Any], paper: Paper) -> dict[str, Any]:
    """The summary of a paper, the state of one under way, or what the rules take from it."""
    return {**_shared(context), "paper": paper, "view": queries.of_paper(paper)}


@register.inclusion_tag("summaries/claims.html", takes_context=True)
def paper_claims(context: dict[str, Any], paper: Paper) -> dict[str, Any]:
    """The numbers a paper reports, each with its quote, verified or marked."""
    return {**_shared(context), "paper": paper, "view": queries.of_paper(paper)}


def _shared(context: dict[str, Any]) -> dict[str, Any]:
    return {name: context.get(name) for name in ("user", "request", "csrf_token")}

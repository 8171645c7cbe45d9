"""The methods a paper concerns, for the paper's page; and how numbers are written."""

from __future__ import annotations

from typing import Any

import nh3
from django import template
from django.utils.safestring import SafeString, mark_safe

from webapp.catalog import queries
from webapp.papers.models import Paper

register = template.Library()

_COLOURED = nh3.Cleaner(tags={"span"}, attributes={"span": {"class"}})


@register.inclusion_tag("catalog/paper_methods.html", takes_context=True)
def paper_methods(context: dict[str, Any], paper: Paper) -> dict[str, Any]:
    """Each method a paper concerns: why, the source's claims beside our numbers, and Run."""
    return {
        "user": context.get("user"),
        "methods": queries.methods_of(paper),
    }


@register.filter
def highlighted(html: str) -> SafeString:
    """A line of source coloured by pygments: words in spans of a class, and nothing else."""
    return mark_safe(_COLOURED.clean(html))  # noqa: S308


@register.filter
def figure(value: float) -> str:
    """A number with three digits that count: 3.47, 12.6, 1,240."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")

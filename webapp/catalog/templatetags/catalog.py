"""The methods a paper concerns, for the paper's page; and how numbers are written."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.safestring import SafeString, mark_safe

from webapp.catalog import queries
from webapp.papers.models import Paper

register = template.Library()


@register.inclusion_tag("catalog/paper_methods.html", takes_context=True)
def paper_methods(context: dict[str, Any], paper: Paper) -> dict[str, Any]:
    """Each method a paper concerns: why, the source's claims beside our numbers, and Run."""
    return {
        "user": context.get("user"),
        "methods": queries.methods_of(paper),
    }


@register.filter
def chart(svg: str) -> SafeString:
    """A chart drawn by `methods.charts`, which escapes every text it draws."""
    return mark_safe(svg)  # noqa: S308


@register.filter
def highlighted(html: str) -> SafeString:
    """A line of source coloured by pygments, which escapes every token."""
    return mark_safe(html)  # noqa: S308


@register.filter
def figure(value: float) -> str:
    """A number with three digits that count: 3.47, 12.6, 1,240."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")

"""Runs in the pages of other rooms: the form of a benchmark, a series with its table."""

from __future__ import annotations

from typing import Any

from django import template

from methods import registry
from methods.spec import PRESETS
from webapp.runs.models import Series
from webapp.runs.web import actions
from webapp.runs.web.present import shown

register = template.Library()


@register.inclusion_tag("runs/form.html", takes_context=True)
def run_form(context: dict[str, Any], method_slug: str, benchmark_slug: str) -> dict[str, Any]:
    """The form that runs a benchmark; for the anonymous how to sign in to do so."""
    if not context["request"].user.is_authenticated:
        return {"user": context["request"].user, "presets": PRESETS}
    found = registry.find(f"{method_slug}.{benchmark_slug}")
    panel = actions.page(context["request"], *found)
    return {**panel, "csrf_token": context.get("csrf_token")}


@register.inclusion_tag("runs/series.html")
def run_series(series: Series) -> dict[str, Any]:
    """A measured series: its charts and the table under them. The page links `charts.css`."""
    return {"one": shown(series.parsed(), ident=f"s{series.pk}-")}

"""The form of a benchmark on other apps' pages, and formats of measured numbers."""

from typing import Any

from django import template

from methods import charts, registry
from methods.spec import PRESETS
from webapp.runs.web import actions
from webapp.runs.web.present import place

register = template.Library()
for words in (charts.check_value, charts.duration, charts.interval, charts.number, place):
    register.filter(words.__name__, words)


@register.inclusion_tag("runs/form.html", takes_context=True)
def run_form(context: dict[str, Any], method_slug: str, benchmark_slug: str) -> dict[str, Any]:
    """The form that runs a benchmark; for anonymous visitors how to sign in."""
    if not context["request"].user.is_authenticated:
        return {"user": context["request"].user, "presets": PRESETS}
    found = registry.find(f"{method_slug}.{benchmark_slug}")
    panel = actions.page(context["request"], *found)
    return {**panel, "csrf_token": context.get("csrf_token")}

"""The form of a benchmark on other apps' pages, and formats of measured numbers."""

from collections.abc import Iterable
from typing import Any

from django import template
from django.utils.translation import gettext

from assay_common.quantities import number
from methods import charts, registry
from webapp.core.durations import duration
from webapp.runs.queries import method_of
from webapp.runs.texts import flag_label, hardware_name, translate_spec
from webapp.runs.web import views
from webapp.runs.web.present import x_text

register = template.Library()
for function in (
    charts.check_value,
    duration,
    hardware_name,
    charts.interval,
    method_of,
    number,
    translate_spec,
    x_text,
):
    register.filter(function.__name__, function)


@register.filter
def flags(names: Iterable[str]) -> str:
    """Doubts about a measurement, separated by commas."""
    return gettext(", ").join(map(flag_label, names))


@register.inclusion_tag("runs/form.html", takes_context=True)
def run_form(context: dict[str, Any], method_slug: str, benchmark_slug: str) -> dict[str, Any]:
    """The form that runs a benchmark; for anonymous visitors how to sign in."""
    request = context["request"]
    method, benchmark = registry.find(f"{method_slug}.{benchmark_slug}")
    shown = {"user": request.user, "csrf_token": context.get("csrf_token")}
    if request.user.is_authenticated:
        return shown | views.form_context(request, method, benchmark)
    return shown | {"presets": views.about_presets(benchmark)}

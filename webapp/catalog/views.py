"""The pages of methods: all that we carry, and one."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from methods import registry
from webapp.catalog import queries, reading
from webapp.catalog.queries import Carried


@require_safe
def methods(request: HttpRequest) -> HttpResponse:
    """Every method, with its best measured figure and how many papers concern it."""
    counts = queries.paper_counts()
    carried = [(one, counts.get(one.method.slug, 0)) for one in queries.all_carried()]
    return render(request, "catalog/methods.html", {"section": "methods", "carried": carried})


@require_safe
def method(request: HttpRequest, slug: str) -> HttpResponse:
    """One method: what it is, what its source claims, what was measured, who writes of it."""
    try:
        carried = Carried(registry.get(slug))
    except registry.UnknownNameError as error:
        raise Http404(str(error)) from error
    context = {
        "section": "methods",
        "carried": carried,
        "method": carried.method,
        "links": queries.papers_of(slug),
    }
    return render(request, "catalog/method.html", context)


@require_safe
def code(request: HttpRequest, slug: str) -> HttpResponse:
    """A method's code: as it is, with its equations, or with the shapes of every line."""
    level = request.GET.get("level", "shapes")
    if level not in reading.LEVELS:
        level = "shapes"
    try:
        context = {
            "section": "methods",
            "method": registry.get(slug),
            "levels": reading.LEVELS,
            "level": level,
            "files": reading.files(slug, level),
        }
    except registry.UnknownNameError as error:
        raise Http404(str(error)) from error
    return render(request, "catalog/code.html", context)

"""A run as a file to keep."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from webapp.runs.web import export
from webapp.runs.web.views import open_run


@require_safe
def as_json(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Everything of a run."""
    response = JsonResponse(export.results(open_run(request, pk)), json_dumps_params={"indent": 1})
    return _kept(response, pk, "json")


@require_safe
def as_csv(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Its measured points, one a line."""
    text = export.table(open_run(request, pk))
    return _kept(HttpResponse(text, content_type="text/csv; charset=utf-8"), pk, "csv")


def _kept(response: HttpResponse, pk: UUID, suffix: str) -> HttpResponse:
    response["Content-Disposition"] = f'attachment; filename="run-{str(pk)[:8]}.{suffix}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response

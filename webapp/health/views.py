"""Addresses for machines that watch the site."""

from __future__ import annotations

from dataclasses import asdict

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from webapp.health.checks import readiness
from webapp.health.metrics import exposition


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 while this process answers, whatever else is down."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when all checks hold, else 503; either way each check in words."""
    checks = readiness()
    ready = all(check.ok for check in checks)
    body = {"ready": ready, "checks": [asdict(check) for check in checks]}
    return JsonResponse(body, status=200 if ready else 503)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format."""
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)

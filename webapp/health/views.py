"""Addresses for machines that watch the site, and the answer where something failed."""

import sys
from dataclasses import asdict

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from webapp.health.checks import readiness
from webapp.health.metrics import exposition

DISK_FULL = "53100"  # SQLSTATE


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


def server_error(_request: HttpRequest) -> HttpResponse:
    """500; 503 and why where the database did not take or give what the page needed."""
    error = sys.exc_info()[1]
    full, said = False, ""
    if isinstance(error, InterfaceError | OperationalError):
        # PostgreSQL's words are in the language of its machine.
        full = getattr(error.__cause__, "sqlstate", "") == DISK_FULL or any(
            words in str(error) for words in ("is full", "No space left", "disk I/O")
        )
        said = "The disk is full" if full else "The database does not answer"
        said += ": nothing was changed"
    status = 503 if said else 500
    about = {"status": status, "said": said, "full": full}
    page = loader.get_template("500.html").render(about)
    # The reason phrase is what the log says, and the API.
    response = HttpResponse(page, status=status, reason=said or None)
    if said:
        response["Retry-After"] = "60"
    return response

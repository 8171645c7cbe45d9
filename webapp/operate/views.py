"""Endpoints for monitoring, and the error page."""

import sys
from dataclasses import asdict

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import REASON_NO_CSRF_COOKIE, REASON_NO_REFERER
from django.shortcuts import redirect, render
from django.template import loader
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from assay_common import __version__
from webapp.core.database import REASONS, database_trouble
from webapp.operate.checks import readiness
from webapp.operate.metrics import Metrics


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 and the version while this process answers, whatever else is down."""
    return HttpResponse(f"ok {__version__}\n", content_type="text/plain; charset=utf-8")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 if all checks pass, else 503; either way the result of each check."""
    checks = readiness()
    ready = all(check.ok for check in checks)
    body = {"ready": ready, "checks": [asdict(check) for check in checks]}
    return JsonResponse(body, status=200 if ready else 503)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format."""
    return HttpResponse(generate_latest(Metrics()), content_type=CONTENT_TYPE_LATEST)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403, with what to do about a form that may have come from another site."""
    origin = request.headers.get("Origin", "")
    if reason == REASON_NO_CSRF_COOKIE:
        cause = "cookies"
    elif origin == "null" or reason == REASON_NO_REFERER:
        cause = "hidden"
    elif reason.startswith(("Origin checking failed", "Referer checking failed")):
        cause = "address"
    else:
        cause = "old"
    here = f"{request.scheme}://{request.get_host()}"
    context = {
        "cause": cause,
        "origin": origin or gettext("another address"),
        "here": settings.BASE_URL or here,
    }
    return render(request, "403_csrf.html", context, status=403)


def server_error(request: HttpRequest) -> HttpResponse:
    """500, or 503 with a reason if the database could not be read or written.

    A reader whose account was deleted meanwhile is asked to sign in, a program gets 401.
    """
    trouble = database_trouble(sys.exc_info()[1])
    if not trouble and _is_account_deleted(request):
        by_token = hasattr(request, "auth")
        return HttpResponse(status=401) if by_token else redirect(settings.LOGIN_URL)
    status = 503 if trouble else 500
    page = loader.get_template("500.html").render({"status": status, "trouble": trouble})
    if not trouble:
        return HttpResponse(page, status=status)
    reason = f"{REASONS[trouble]}, so nothing was changed"  # the log and the API show it
    return HttpResponse(page, status=status, reason=reason, headers={"Retry-After": "60"})


def _is_account_deleted(request: HttpRequest) -> bool:
    """True if the account behind a request was deleted after authentication."""
    reader = getattr(request, "auth", None) or getattr(request, "user", None)
    key = getattr(reader, "pk", None)
    return key is not None and not User.objects.filter(pk=key).exists()

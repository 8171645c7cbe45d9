"""Signing in and out. There are no passwords: whoever runs the site hands out links."""

from __future__ import annotations

import logging

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, logout
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from webapp.readers import links

log = logging.getLogger(__name__)


@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """How to come by a link; where mail is set up, one is mailed."""
    context = {"section": "sign-in", "mail_on": settings.MAIL_ON}
    if request.method == "POST" and settings.MAIL_ON:
        try:
            links.mail_link(request.POST.get("address", "").strip()[:254])
        except OSError as error:
            log.warning("Sign-in link not mailed: %s", error)
        context["mailed"] = True
    return render(request, "readers/sign_in.html", context)


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "HEAD", "POST"])
def use_link(request: HttpRequest, token: str) -> HttpResponse:
    """A button on GET, the sign-in on POST: a mail scanner that looks at a link does not use it."""
    if request.method != "POST":
        return render(request, "readers/use_link.html", {"section": "sign-in"})
    with transaction.atomic():  # where the session cannot be stored, the link is not spent
        reader = links.redeem(token)
        if reader is None:
            context = {"section": "sign-in", "spent": True}
            return render(request, "readers/sign_in.html", context, status=410)
        is_first = reader.last_login is None
        login(request, reader)
        request.session.save()
    messages.success(request, f"You are signed in as {reader}.")
    return redirect("library:first-steps" if is_first else settings.LOGIN_REDIRECT_URL)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return redirect(settings.LOGIN_REDIRECT_URL)

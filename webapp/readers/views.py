"""Signing in and out. There are no passwords: the site's administrator hands out links."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST
from django.views.i18n import set_language

from webapp.core import connections, tasks
from webapp.core.limits import address_key, spend
from webapp.readers import links
from webapp.readers.models import Preference

MOST_WAITING = 1000  # tasks on the site's queue, so that endless requests cannot fill the broker


@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Explain how to get a link; where mail is set up, mail one."""
    mail_on = connections.mail_host()
    context: dict[str, object] = {"mail_on": mail_on}
    if request.method == "POST" and mail_on:
        # A worker looks the address up: neither response nor time reveals who is known here.
        spend("sign-in links", address_key(request))
        address = request.POST.get("address", "").strip()[:254]
        sent = tasks.send_if_room(
            "site.mail_link", [address], MOST_WAITING, lost="a sign-in link is not mailed"
        )
        context["mailed" if sent else "not_mailed"] = True
    return render(request, "readers/sign_in.html", context)


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "HEAD", "POST"])
def use_link(request: HttpRequest, token: str) -> HttpResponse:
    """A button on GET, the sign-in on POST: a mail scanner that opens it does not use it up."""
    if request.method != "POST":
        return render(request, "readers/use_link.html")
    with transaction.atomic():  # where the session cannot be stored, the link stays valid
        reader = links.redeem(token)
        if reader is None:
            return render(request, "readers/sign_in.html", {"spent": True}, status=410)
        is_first = reader.last_login is None
        login(request, reader)
        request.session.save()
    messages.success(request, _("You are signed in as %(reader)s.") % {"reader": reader})
    response = redirect("pages:first-steps" if is_first else settings.LOGIN_REDIRECT_URL)
    preference, _made = Preference.objects.get_or_create(
        reader=reader, defaults={"language": get_language()}
    )
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        preference.language,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        secure=settings.LANGUAGE_COOKIE_SECURE,
        samesite="Lax",
    )
    return response


@csrf_exempt  # the form stands on pages kept for everybody; from another site no session comes
@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Keep the language chosen in this browser and, signed in, for the reader's mails too."""
    response = set_language(request)
    chosen = response.cookies.get(settings.LANGUAGE_COOKIE_NAME)
    if chosen and request.user.is_authenticated:
        Preference.objects.update_or_create(
            reader=request.user, defaults={"language": chosen.value}
        )
    return response

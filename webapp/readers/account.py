"""A reader's account: export and deletion of their data, and invitations of others."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.core import serializers
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from webapp.core import connections
from webapp.core.input import number_in
from webapp.readers import links
from webapp.readers.models import SignInLink
from webapp.ui.pages import for_readers

MAX_READERS = 1_000


@never_cache
@for_readers("GET", "HEAD")
def export(request: HttpRequest, reader: User) -> HttpResponse:
    """Every row that is the reader's, as JSON, without the hashes of keys and links."""
    rows: dict[str, list[dict[str, Any]]] = {
        "reader": [{"name": reader.username, "email": reader.email, "joined": reader.date_joined}]
    }
    for relation in User._meta.related_objects:
        model: Any = relation.related_model
        mine = model._default_manager.filter(**{relation.field.name: reader})
        if relation.field.name in {"reader", "owner"} and mine.exists():
            rows[model._meta.label_lower] = [
                {name: value for name, value in row["fields"].items() if "hash" not in name}
                for row in serializers.serialize("python", mine)
            ]
    headers = {"Content-Disposition": 'attachment; filename="assay-account.json"'}
    written = {"ensure_ascii": False, "indent": 1}
    return JsonResponse(rows, json_dumps_params=written, headers=headers)


@never_cache
@for_readers("GET", "HEAD", "POST")
def readers(request: HttpRequest, reader: User) -> HttpResponse:
    """List the readers; administrators invite, and switch accounts off and on."""
    if not reader.is_superuser:
        raise PermissionDenied
    for button, is_active in (("off", False), ("on", True)):
        if button in request.POST:
            _switch(request, reader, number_in(request.POST[button]), is_active=is_active)
    made = _invite(request) if "name" in request.POST else ""
    everyone = User.objects.order_by("username")[:MAX_READERS]
    context = {"everyone": everyone, "made": made}
    return render(request, "readers/readers.html", context)


@for_readers("POST")
def sign_out_elsewhere(request: HttpRequest, reader: User) -> HttpResponse:
    """End every session of the reader but this one, and void links that were not used yet."""
    with transaction.atomic():
        # Nobody knows it or signs in by it, but Django ends the sessions of another password.
        reader.set_unusable_password()
        reader.save(update_fields=["password"])
        SignInLink.objects.filter(reader=reader, used_at=None).delete()
        update_session_auth_hash(request, reader)
        request.session.save()
    messages.success(request, _("Every other browser is signed out."))
    return redirect("readers:account")


@transaction.atomic
def _switch(request: HttpRequest, me: User, pk: int, *, is_active: bool) -> None:
    """Switch the account of another reader off, or on again."""
    if me.pk not in links.lock_administrators():
        raise PermissionDenied  # another administrator has just taken these rights away
    others = User.objects.exclude(pk=me.pk)
    if not others.filter(pk=pk).update(is_active=is_active):
        messages.error(request, _("There is no such reader, or it is your own account."))
        return
    off, on = _("%(reader)s can no longer sign in."), _("%(reader)s may sign in.")
    messages.success(request, (on if is_active else off) % {"reader": User.objects.get(pk=pk)})


def _invite(request: HttpRequest) -> str:
    """Make a reader; the link of the invitation, shown once, or "" if it was mailed."""
    name, mail = (request.POST.get(field, "").strip() for field in ("name", "email"))
    try:
        if mail:
            forms.EmailField().clean(mail)
        reader = links.new_reader(name)
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return ""
    if mail and connections.mail_host():
        User.objects.filter(pk=reader.pk).update(email=mail)
        try:
            links.send_link(reader, mail)
            mailed = _("An invitation was mailed to %(address)s.")
            messages.success(request, mailed % {"address": mail})
            return ""
        except OSError as error:
            failed = _("The mail could not be sent: %(error)s. Please pass on the link yourself.")
            messages.error(request, failed % {"error": error})
    return links.address(links.make_link(reader))

"""A reader's account."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from webapp.readers import links
from webapp.ui.pages import for_readers


@for_readers("GET", "HEAD", "POST")
def account(request: HttpRequest, reader: User) -> HttpResponse:
    """Show the account page; delete the account if its name is typed to confirm."""
    if request.method == "POST":
        if request.POST.get("delete", "").strip() != reader.username:
            messages.error(request, _("Nothing was deleted: type your name to confirm."))
            return redirect("readers:account")
        with transaction.atomic():
            if links.lock_administrators() == {reader.pk}:
                messages.error(request, _("Nothing was deleted: you are the only administrator."))
                return redirect("readers:account")
            logout(request)
            # Locked, so that no row is added for the reader while theirs are collected.
            if locked := User.objects.select_for_update().filter(pk=reader.pk).first():
                locked.delete()
        messages.success(request, _("Your account and all its data are deleted."))
        return redirect(settings.LOGIN_REDIRECT_URL)
    return render(request, "pages/account.html")

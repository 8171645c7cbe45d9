"""The page on which an administrator connects a model's server and mail, and tests them."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import quote

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from pydantic import ValidationError

from assay_common.env import without_password
from assay_common.text import one_line
from webapp.core import connections
from webapp.core.addresses import WITHOUT_KEY, server_address
from webapp.core.codes import CodeField, NameField
from webapp.env import Settings
from webapp.operate import local_model
from webapp.operate.trials import describe, look, server_facts, try_mail, try_model
from webapp.summaries.client import ModelError
from webapp.summaries.queries import by_model
from webapp.ui.pages import back, for_readers

MAX_NAME = 300  # of a model's file or its name on the hub
HIDDEN = {"autocomplete": "new-password"}  # keeps browsers from filling in other passwords


class _ConnectionForm(forms.Form):
    """The settings of a server. Those set by the environment are shown, and cannot be changed.

    If valid, it has `values` by environment variable, and `connected`, the settings with them.
    """

    VARIABLES: ClassVar[dict[str, str]]  # by field
    SECRET: ClassVar[str]  # the field that is never shown again
    OWNER: ClassVar[tuple[str, ...]]  # what identifies the server: no other gets the secret

    values: dict[str, str]
    connected: Settings
    is_kept = False

    def __init__(self, data: Mapping[str, Any] | None, initial: dict[str, Any]) -> None:
        super().__init__(data, initial=initial, label_suffix="")
        if initial[self.SECRET]:
            help_text = _("One is saved and is not shown again. Enter another to replace it.")
            self.fields[self.SECRET].help_text = help_text
        fixed = [name for name in self.VARIABLES if connections.is_fixed(self.VARIABLES[name])]
        for name in fixed:
            field, by_whom = self.fields[name], _("Set by the environment: %s.")
            field.disabled, field.required, field.validators = True, False, []
            field.help_text = by_whom % self.VARIABLES[name]
        self.is_fixed = len(fixed) == len(self.VARIABLES)
        with suppress(OSError, ValueError):  # an unreadable file counts as empty
            self.is_kept = not connections.stored().keys().isdisjoint(self.VARIABLES.values())

    def clean(self) -> dict[str, Any]:
        """Check the values as settings."""
        data = self.cleaned_data
        if self.errors:
            return data
        if not data[self.SECRET] and all(data[name] == self.initial[name] for name in self.OWNER):
            data[self.SECRET] = self.initial[self.SECRET]
        self.values = self.written(data)
        try:
            self.connected = connections.with_values(self.values)
        except ValidationError as error:
            for wrong in error.errors():
                names = [name for name in self.VARIABLES if self.VARIABLES[name] == wrong["loc"][0]]
                self.add_error(names[0], _(wrong["msg"].removeprefix("Value error, ")))
        return data

    def written(self, data: dict[str, Any]) -> dict[str, str]:
        """The values of fields by environment variable."""
        return {variable: data[name] for name, variable in self.VARIABLES.items()}


class ModelForm(_ConnectionForm):
    """An OpenAI-compatible server and its model."""

    title = gettext_lazy("A model for summaries")
    without = gettext_lazy("Pages quote what abstracts report.")
    VARIABLES: ClassVar = {
        "base_url": "OPENAI_BASE_URL",
        "model": "ASSAY_SUMMARY_MODEL",
        "key": "OPENAI_API_KEY",
    }
    SECRET, OWNER = "key", ("base_url",)

    base_url = forms.CharField(
        max_length=300,
        label="Address",
        help_text="OpenAI’s, or any compatible server’s, for example http://localhost:11434/v1.",
    )
    model = NameField(
        max_length=128, help_text="The model’s name on that server, for example qwen3:8b."
    )
    key = CodeField(
        r"^[!-~]+\Z",
        max_length=500,
        required=False,
        label="API key",
        widget=forms.PasswordInput(attrs=HIDDEN),
        help_text="Self-hosted servers often need none.",
        error_messages={"invalid": gettext_lazy("A key has only plain characters and no spaces.")},
    )

    @classmethod
    def shown(cls, data: Mapping[str, Any] | None, _reader: User) -> "ModelForm":
        """The form with what is connected now."""
        now = connections.current()
        key, address = now.openai_api_key.get_secret_value(), without_password(now.openai_base_url)
        return cls(data, {"base_url": address, "model": now.summary_model, "key": key})

    def clean_base_url(self) -> str:
        """The base address, whatever was copied of it; the environment's as it is."""
        given = str(self.cleaned_data["base_url"])
        if self.fields["base_url"].disabled:
            return given.rstrip("/")
        try:
            if "@" in given:
                raise ValueError(WITHOUT_KEY)
            return server_address(given)
        except ValueError as error:
            raise forms.ValidationError(f"{_(str(error)[:1].upper() + str(error)[1:])}.") from error


class MailForm(_ConnectionForm):
    """A server that sends the site's mail."""

    title = gettext_lazy("Mail")
    without = gettext_lazy("No feeds and no sign-in links are mailed.")
    VARIABLES: ClassVar = {
        **dict.fromkeys(("host", "port", "scheme", "username", "password"), "ASSAY_SMTP_URL"),
        "sender": "ASSAY_MAIL_FROM",
    }
    SECRET, OWNER = "password", ("host", "username")

    host = CodeField(
        r"^(?:\w+(?:\+tls)?://)?[\w.:-]+/?\Z",
        max_length=253,
        label="Server",
        error_messages={"invalid": gettext_lazy("Write only the server’s name: mail.example.")},
    )
    scheme = forms.ChoiceField(
        choices={
            "smtp+tls": gettext_lazy("STARTTLS, often port 587"),
            "smtps": gettext_lazy("TLS, often port 465"),
            "smtp": gettext_lazy("none, for a server on this machine"),
        },
        label="Encryption",
    )
    port = forms.IntegerField(min_value=1, max_value=65535)
    username = forms.CharField(max_length=200, required=False, label="User")
    password = forms.CharField(
        max_length=500, required=False, strip=False, widget=forms.PasswordInput(attrs=HIDDEN)
    )
    sender = forms.CharField(
        max_length=200, label="Sender of all mail", help_text="For example assay@digest.example."
    )
    to = forms.EmailField(required=False, label="Send the test message to")

    @classmethod
    def shown(cls, data: Mapping[str, Any] | None, reader: User) -> "MailForm":
        """The form with what is connected now."""
        now = connections.current()
        scheme = now.smtp_url.get_secret_value().partition(":")[0] or "smtp+tls"
        sending = {"scheme": scheme, "sender": now.mail_from, "to": reader.email}
        return cls(data, connections.smtp(now) | sending)

    def clean_host(self) -> str:
        """The server's name; the port has a field of its own."""
        name = str(self.cleaned_data["host"]).rpartition("//")[2].rstrip("/")
        return re.sub(r"^([\w.-]+):\d+$", r"\1", name)

    def clean(self) -> dict[str, Any]:
        """A user needs a password, and a test an address."""
        data = super().clean()
        if "try" in self.data and not data.get("to"):
            self.add_error("to", self.fields["to"].error_messages["required"])
        if data.get("username") and not data.get("password"):
            self.add_error("password", _("Enter the password of this user."))
        return data

    def written(self, data: dict[str, Any]) -> dict[str, str]:
        """The values of fields by environment variable."""
        user, password = (quote(data[name], safe="") for name in ("username", "password"))
        host = f"[{data['host']}]" if ":" in data["host"] else data["host"].lower()
        login = f"{user}:{password}@" if user else ""
        url = f"{data['scheme']}://{login}{host}:{data['port']}"
        return {"ASSAY_SMTP_URL": url, "ASSAY_MAIL_FROM": data["sender"]}


def connection_forms(reader: User, request: HttpRequest) -> dict[str, _ConnectionForm]:
    """The forms by name; the one that was sent is bound."""
    sent = {request.POST.get("connection"): request.POST}
    return {
        "model": ModelForm.shown(sent.get("model"), reader),
        "mail": MailForm.shown(sent.get("mail"), reader),
    }


@sensitive_post_parameters("key", "password")
@for_readers("GET", "HEAD", "POST")
def connect(request: HttpRequest, reader: User) -> HttpResponse:
    """Test and keep a connection, or remove it."""
    if not reader.is_superuser:
        raise PermissionDenied
    if "here" in request.POST:
        try:
            local_model.request(one_line(request.POST["here"])[:MAX_NAME])
        except OSError as error:
            reason = error.strerror or str(error)
            messages.error(request, _("Nothing was changed: %(error)s.") % {"error": reason})
        return redirect("operate:connections")
    shown = connection_forms(reader, request)
    sent = next((form for form in shown.values() if form.is_bound), None)
    if sent and _done(request, sent):
        return back(request, reverse("operate:connections"), "")
    status = 422 if sent else 200
    looked = "look" in request.GET
    context = {
        "connections": shown,
        "models": by_model(),
        "server_facts": server_facts(),
        "starts_models": local_model.can_be_started() and not shown["model"].is_fixed,
        "here": local_model.status(),
        "looked": looked,
        "nearby": look() if looked else [],
    }
    return render(request, "operate/connections.html", context, status=status)


def _done(request: HttpRequest, form: _ConnectionForm) -> bool:
    """Test, keep or remove a connection; whether that succeeded. The next page has the results."""
    facts: list[str] = []
    remove = "remove" in request.POST
    if not remove and not form.is_valid():
        return False
    values = dict.fromkeys(form.VARIABLES.values(), "") if remove else form.values
    try:
        if "try" in request.POST and not remove:
            if isinstance(form, MailForm):
                facts = try_mail(form.connected, form.cleaned_data["to"])
            else:
                facts = try_model(form.connected)
        if not form.is_fixed:
            connections.store(values)
    except (ModelError, OSError) as error:
        reason = _without_secrets(form, describe(error)).rstrip(".")
        form.add_error(None, _("It does not work: %(error)s.") % {"error": reason})
        return False
    done = [_("It works.")] if facts else []
    if not form.is_fixed:
        done.append(_("Removed.") if remove else _("Saved."))
    lines = [" ".join(part) for part in (done, facts) if part]
    messages.success(request, _without_secrets(form, "\n".join(lines)))
    return True


def _without_secrets(form: _ConnectionForm, text: str) -> str:
    """A server's message without secrets, which some servers repeat."""
    for secret in filter(None, (form.data.get(form.SECRET), form.initial[form.SECRET])):
        text = text.replace(secret, "…")
    return text

"""The pages of a reader's tokens and of the API's documentation."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from webapp.api import tokens
from webapp.api.api import api
from webapp.api.models import Token
from webapp.core.input import number_in
from webapp.core.limits import LIMITS
from webapp.ui import translations
from webapp.ui.pages import for_readers

TEXTS = ("summary", "description")  # of an endpoint


@never_cache
@for_readers("GET", "HEAD", "POST")
@sensitive_variables("made")
def account_tokens(request: HttpRequest, reader: User) -> HttpResponse:
    """A reader's tokens: create one, which is shown once, or revoke one."""
    made = ""
    if "revoke" in request.POST:
        if tokens.revoke(reader, number_in(request.POST["revoke"])):
            messages.success(request, "Revoked. Programs that use this token are now refused.")
        return redirect("api:tokens")
    if request.method == "POST":
        try:
            scopes = request.POST.getlist("scopes")
            days = request.POST.get("days", str(tokens.DAYS))
            if days not in {"never", *map(str, tokens.LIFETIMES)}:
                raise tokens.TokenRefusedError(_("Choose when the token expires."))
            lifetime = None if days == "never" else int(days)
            made = tokens.make(reader, request.POST.get("name", ""), scopes, lifetime)
        except tokens.TokenRefusedError as error:
            messages.error(request, str(error))
    context = {
        "tokens": Token.objects.filter(reader=reader),
        "made": made,
        "a_minute": LIMITS["API requests"].most,
        "scopes": tokens.SCOPES.items(),
        "lifetimes": tokens.LIFETIMES,
        "days": tokens.DAYS,
    }
    return render(request, "api/tokens.html", context)


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document as a page, without scripts from other sites."""
    schema = api.get_openapi_schema()
    endpoints = [
        operation
        | {name: _(_folded(operation.get(name, ""))) for name in TEXTS}
        | {
            "verb": verb,
            "path": path,
            "body": _named(operation.get("requestBody", {})),
            "answers": {
                code: _named(response)
                for code, response in operation["responses"].items()
                if code != "default"
            },
        }
        for path, verbs in schema["paths"].items()
        for verb, operation in verbs.items()
    ]
    written = partial(json.dumps, indent=2, ensure_ascii=False)
    models = [
        (name, _(_folded(model.get("description", ""))), written(model.get("properties", {})))
        for name, model in schema["components"]["schemas"].items()
    ]
    context = {
        "about": _(_folded(schema["info"]["description"])),
        "endpoints": endpoints,
        "models": models,
        "here": request.build_absolute_uri("/").rstrip("/"),
    }
    return render(request, "api/docs.html", context)


def texts() -> Iterator[tuple[str, str]]:
    """Yield the texts of the API's documentation, for the catalogues."""
    schema = api.get_openapi_schema()
    operations = [each for verbs in schema["paths"].values() for each in verbs.values()]
    models = schema["components"]["schemas"].values()
    for text in (
        schema["info"]["description"],
        *(operation.get(name, "") for operation in operations for name in TEXTS),
        *(model.get("description", "") for model in models),
    ):
        yield _folded(text), "webapp/api"


translations.sources.answer("api", texts)


def _folded(text: str) -> str:
    return " ".join(text.split())


def _named(holder: dict[str, Any]) -> str:
    """The name of the schema of a body or response; "" if it has none."""
    schema = holder.get("content", {}).get("application/json", {}).get("schema", {})
    of_list = schema.get("type") == "array"
    name = (schema["items"] if of_list else schema).get("$ref", "").rpartition("/")[2]
    return _("list of %(name)s") % {"name": name} if of_list else name

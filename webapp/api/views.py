"""A reader's tokens, and the interface described on a page of our own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from webapp.api import tokens
from webapp.api.api import api
from webapp.api.models import Token
from webapp.ui.pages import signed_in


@never_cache
@login_required
@sensitive_variables("made")
@require_http_methods(["GET", "HEAD", "POST"])
def account_tokens(request: HttpRequest) -> HttpResponse:
    """A reader's tokens: make one, which is shown once; revoke one."""
    reader, made = signed_in(request), ""
    if "revoke" in request.POST:
        pk = request.POST["revoke"]
        if pk.isdecimal() and tokens.revoke(reader, int(pk)):
            messages.success(request, "Revoked: what uses it is refused from now on.")
        return redirect("api:tokens")
    if request.method == "POST":
        try:
            scopes = request.POST.getlist("scopes") or ["runs"]
            made = tokens.make(reader, request.POST.get("name", ""), scopes)
        except tokens.TooManyTokensError as error:
            messages.error(request, str(error))
    context = {
        "section": "tokens",
        "tokens": Token.objects.filter(reader=reader),
        "made": made,
        "a_minute": tokens.A_MINUTE,
        "scopes": tokens.SCOPES.items(),
    }
    return render(request, "api/tokens.html", context)


@dataclass(frozen=True)
class Endpoint:
    """One operation as the page describes it."""

    verb: str
    path: str
    summary: str
    about: str
    needs_token: bool
    parameters: list[dict[str, Any]]
    body: str
    answers: list[tuple[str, str]]


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document as a page, without anybody else's scripts."""
    schema = api.get_openapi_schema()
    endpoints = [
        _endpoint(verb, path, told)
        for path, verbs in schema["paths"].items()
        for verb, told in verbs.items()
    ]
    models = [
        (name, model.get("description", ""), _pretty(model))
        for name, model in schema["components"]["schemas"].items()
    ]
    context = {
        "section": "api",
        "info": schema["info"],
        "endpoints": endpoints,
        "models": models,
        "here": request.build_absolute_uri("/").rstrip("/"),
    }
    return render(request, "api/docs.html", context)


def _endpoint(verb: str, path: str, told: dict[str, Any]) -> Endpoint:
    content = told.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    return Endpoint(
        verb=verb.upper(),
        path=path,
        summary=told.get("summary", ""),
        about=told.get("description", ""),
        needs_token=bool(told.get("security")),
        parameters=told.get("parameters", []),
        body=_named(schema),
        answers=[
            (
                str(code),
                _named(one.get("content", {}).get("application/json", {}).get("schema", {})),
            )
            for code, one in told.get("responses", {}).items()
        ],
    )


def _named(schema: dict[str, Any]) -> str:
    """The name of what a schema refers to."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        return f"list of {_named(schema['items'])}"
    return ""


def _pretty(model: dict[str, Any]) -> str:
    return json.dumps(model.get("properties", {}), indent=2, ensure_ascii=False)

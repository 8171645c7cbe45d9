"""Errors as problem JSON (RFC 9457): every refusal says what was wrong and what would do."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse

MEDIA_TYPE = "application/problem+json"


class ProblemError(Exception):
    """A request that is refused, as it is answered."""

    def __init__(self, status: int, detail: str, **more: Any) -> None:
        self.status, self.detail, self.more = status, detail, more
        self.headers: dict[str, str] = more.pop("headers", {})
        super().__init__(detail)


def answer(problem: ProblemError) -> HttpResponse:
    """The problem as a response."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        **problem.more,
    }
    return HttpResponse(
        json.dumps(body),
        status=problem.status,
        content_type=MEDIA_TYPE,
        headers=problem.headers,
    )

"""Errors as problem JSON (RFC 9457): each refusal says what was wrong and what is accepted."""

from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.deprecation import MiddlewareMixin

MEDIA_TYPE = "application/problem+json"
PREFIX = "/api/v1/"


class ProblemError(Exception):
    """A refused request, with its response."""

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
    status, headers = problem.status, problem.headers
    return JsonResponse(body, status=status, content_type=MEDIA_TYPE, headers=headers)


class ProblemMiddleware(MiddlewareMixin):
    """Makes every error response of the API a problem, also those of Django itself."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """The response; an HTML error page is replaced by a problem."""
        is_problem = response.headers.get("Content-Type", "").startswith(MEDIA_TYPE)
        if response.status_code < 400 or is_problem or not request.path.startswith(PREFIX):
            return response
        details = {404: "There is nothing at this address.", 503: f"{response.reason_phrase}."}
        status = response.status_code
        detail = details.get(status, HTTPStatus(status).description or HTTPStatus(status).phrase)
        names = ("Allow", "Retry-After", "WWW-Authenticate")
        headers = {name: response[name] for name in names if name in response}
        return answer(ProblemError(status, detail, headers=headers))

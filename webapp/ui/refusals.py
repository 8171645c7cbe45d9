"""The answer to a reader who has reached a limit."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from webapp.limits import LimitReachedError


class LimitMiddleware(MiddlewareMixin):
    """Answers 429, with a sentence and Retry-After, wherever a view does not say it itself."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The page that says which limit is reached; None for other errors."""
        if not isinstance(error, LimitReachedError):
            return None
        response = render(request, "429.html", {"exception": error}, status=429)
        response["Retry-After"] = str(error.seconds)
        return response

"""Chooses the language of a page: the reader's choice, else the browser's."""

from collections.abc import Callable
from contextlib import suppress

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.cache import patch_vary_headers

FILES = {"opml", "healthz", "readyz"}  # files without a suffix

GetResponse = Callable[[HttpRequest], HttpResponse]


class LanguageMiddleware:
    """Sets a page's language by `?lang`, the language cookie and Accept-Language, in this order.

    Feeds, files and the API are in English unless `?lang` says otherwise, so that one URL gives the
    same bytes to every program.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer in the request's language."""
        is_page = _is_page(request.path_info)
        language = _requested_language(request)
        if not language:
            of_reader = translation.get_language_from_request
            language = of_reader(request) if is_page else settings.LANGUAGE_CODE
        with translation.override(language):
            response = self.get_response(request)
        if is_page:
            response.headers.setdefault("Content-Language", language)
            patch_vary_headers(response, ["Accept-Language", "Cookie"])
        return response


def _is_page(path: str) -> bool:
    """True if `path` is a page for people, neither a file with a suffix nor the API."""
    last = path.rpartition("/")[2]
    return "." not in last and last not in FILES and not path.startswith("/api/v1/")


def _requested_language(request: HttpRequest) -> str:
    with suppress(LookupError):
        return translation.get_supported_language_variant(request.GET.get("lang", ""))
    return ""


def current_language() -> str:
    """The active language as summaries name theirs: `en` or `zh`."""
    return (translation.get_language() or settings.LANGUAGE_CODE)[:2]

"""Cleans request parameters before any view reads them."""

from hashlib import sha256
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, QueryDict
from django.utils.deprecation import MiddlewareMixin

from assay_common.text import clean


class CleanInputMiddleware(MiddlewareMixin):
    """Removes control, bidi and zero-width characters from query and form values (PostgreSQL stores
    no NUL); a path that contains one is not found.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Replace the request's parameters by cleaned ones."""
        if clean(request.path_info) != request.path_info:
            raise Http404("There is nothing at this address.")
        if request.META.get("QUERY_STRING"):
            request.GET = _cleaned(request.GET)  # type: ignore[assignment]
        # The API reads and cleans its body itself: a form read here would take it away.
        if request.method == "POST" and not request.path_info.startswith("/api/"):
            request.POST = _cleaned(request.POST)  # type: ignore[assignment]


def number_in(text: str) -> int:
    """The number in a field of up to nine digits; else 0, which is no row's key."""
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def fingerprint(values: object) -> str:
    """Return a short hash of the values that a form shows: by it a stale window is noticed."""
    return sha256(repr(values).encode()).hexdigest()[:16]


def _cleaned(given: QueryDict) -> QueryDict:
    """`given` itself if it is clean, else a cleaned copy."""
    lists = dict(given.lists())
    cleaned = {clean(name): [clean(v) for v in values] for name, values in lists.items()}
    if cleaned == lists:
        return given
    return QueryDict(urlencode(cleaned, doseq=True))

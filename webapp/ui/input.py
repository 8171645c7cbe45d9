"""What strangers send by HTTP, cleaned before any view sees it."""

from django.http import Http404, HttpRequest, QueryDict
from django.utils.deprecation import MiddlewareMixin

from methods.protocol import clean


class CleanInputMiddleware(MiddlewareMixin):
    """Query and form texts without control, bidi and zero-width characters (PostgreSQL keeps no
    NUL); an address with one in it is nobody's.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Leave in the request what may be read."""
        if clean(request.path_info) != request.path_info:
            raise Http404("There is nothing at this address.")
        if request.META.get("QUERY_STRING"):
            request.GET = _cleaned(request.GET)  # type: ignore[assignment]
        # The API reads and cleans its body itself: a form read here would take it away.
        if request.method == "POST" and not request.path_info.startswith("/api/"):
            request.POST = _cleaned(request.POST)  # type: ignore[assignment]


def number_in(text: str) -> int:
    """The number that a field holds in up to nine digits; 0, which no row has, for all else."""
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _cleaned(given: QueryDict) -> QueryDict:
    """`given`, or a copy without what `clean` takes away where that is anything."""
    lists = {name: given.getlist(name) for name in given}
    cleaned = {clean(name): [clean(v) for v in values] for name, values in lists.items()}
    if cleaned == lists:
        return given
    copy = QueryDict(mutable=True)
    for name, values in cleaned.items():
        copy.setlist(name, values)
    copy._mutable = False
    return copy

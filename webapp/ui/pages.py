"""Caches whole pages in memory for readers who are not signed in.

A page that is the same for every anonymous reader is rendered and compressed once, and served from
memory while what it shows stays the same: `webapp.core.revisions`. Each process has
its own cache, and nothing needs to be invalidated.
"""

from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from hashlib import sha256
from threading import Lock
from typing import Concatenate, ParamSpec

from cachetools import LRUCache
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.cache import patch_vary_headers
from django.utils.http import content_disposition_header, url_has_allowed_host_and_scheme
from django.utils.translation import get_language
from django.views.decorators.http import require_http_methods

from webapp.ui import personal
from webapp.ui.encodings import QUICK_EFFORT, chosen, encoded

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]
OfReader = Callable[Concatenate[HttpRequest, User, P], HttpResponse]

MAX_BYTES = 32 * 2**20  # of all cached pages of a process
PATIENCE = 10.0  # seconds for which a thread waits for a page that another makes
EFFORT = 8  # of compressing a cached page; Brotli's 10 takes 14 times as long


@dataclass(frozen=True)
class Page:
    """A rendered page in one encoding, with a strong ETag."""

    body: bytes
    headers: Mapping[str, str]


class _NotKeptError(Exception):
    """The response is not a page to cache."""

    def __init__(self, response: HttpResponse) -> None:
        self.response = response


cache: LRUCache[Hashable, Page] = LRUCache(MAX_BYTES, lambda page: len(page.body))


# Pages that threads of this process are rendering, by key in `cache`; guarded by `_lock` too.
_making: dict[Hashable, Future[Page]] = {}
_lock = Lock()


def kept_page(
    address: str,
    shown: Hashable,
    encoding: str,
    render: Callable[[], HttpResponse],
    effort: int = EFFORT,
) -> Page:
    """The cached or newly rendered page of an address that shows this.

    Of the threads that ask for a page that is not there, one makes it and the others wait for it;
    after PATIENCE seconds, or if it could not be made, each makes its own. Raises _NotKeptError for
    a response whose status is not 200, or that says `no-store`.
    """
    key = (address, shown, encoding)
    with _lock:
        if (page := cache.get(key)) is not None:
            return page
        under_way = _making.get(key)
        mine: Future[Page] = Future()
        if under_way is None:
            _making[key] = mine
    if under_way is not None:
        with suppress(TimeoutError, CancelledError):
            return under_way.result(PATIENCE)
        return _made(address, shown, encoding, render, effort)
    try:
        page = _made(address, shown, encoding, render, effort)
        with _lock, suppress(ValueError):  # too large to be kept
            cache[key] = page
        mine.set_result(page)
        return page
    finally:
        mine.cancel()  # unless it has its result: those who wait go on
        with _lock:
            del _making[key]


def _made(
    address: str, shown: Hashable, encoding: str, render: Callable[[], HttpResponse], effort: int
) -> Page:
    if encoding:
        page = kept_page(address, shown, "", render)
        body = encoded(page.body, encoding, effort)
        headers = {**page.headers, "Content-Encoding": encoding}
    else:
        response = render()
        if response.status_code != 200 or "no-store" in response.get("Cache-Control", ""):
            raise _NotKeptError(response)
        body, headers = response.content, dict(response.items())
    return Page(body, headers | {"ETag": f'"{sha256(body).hexdigest()[:24]}"'})


def for_readers(*verbs: str) -> Callable[[OfReader[P]], View[P]]:
    """Decorate a view to get its signed-in reader; others are redirected to the sign-in page.

    `verbs` are the HTTP methods that it accepts.
    """

    def decorate(view: OfReader[P]) -> View[P]:
        @require_http_methods(verbs)
        @login_required
        @wraps(view)
        def shown(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            assert isinstance(request.user, User)  # login_required has checked it
            response = view(request, request.user, *args, **kwargs)
            # No copy of a private page stays in a cache, or on a shared machine's disk.
            response.setdefault("Cache-Control", "private, no-store")
            return response

        return shown

    return decorate


def asked_mark(request: HttpRequest) -> tuple[str, bool]:
    """The paper that a button names, and the state it asks for: set (`paper`) or `clear`.

    A button never asks for "the other state": a form sent twice, or from two windows, would then
    undo itself.
    """
    is_set = "clear" not in request.POST
    return request.POST.get("paper" if is_set else "clear", ""), is_set


def back(request: HttpRequest, default: str, anchor: str, **state: bool) -> HttpResponse:
    """Redirect to the page that a form was sent from; for the script, `state` as JSON instead."""
    if request.headers.get("Accept") == "application/json":
        return JsonResponse(state)
    page = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(page, allowed_hosts={request.get_host()}):
        page = default
    return HttpResponseRedirect(page + anchor)


def attachment(body: str | bytes, media_type: str, name: str) -> HttpResponse:
    """A file for download, never shown in the browser."""
    headers = {"Content-Disposition": content_disposition_header(True, name) or ""}
    return HttpResponse(body, content_type=media_type, headers=headers)


def is_anonymous(request: HttpRequest) -> bool:
    """True if nothing in the request identifies its reader; does not read the session."""
    cookies = {settings.SESSION_COOKIE_NAME, "messages"}
    return request.method in {"GET", "HEAD"} and cookies.isdisjoint(request.COOKIES)


def reader_of(request: HttpRequest) -> User | AnonymousUser:
    """The reader of a request; does not read the session of anonymous ones."""
    return AnonymousUser() if is_anonymous(request) else request.user


def respond(
    request: HttpRequest, shown: Hashable, render: Callable[[], HttpResponse]
) -> HttpResponse:
    """The page of this address: for anonymous readers cached while `shown` is unchanged.

    `render` must depend only on the address, the language and what `shown` stands for. Only
    responses with status 200 are cached; a conditional request for the same bytes gets 304.
    """
    if is_anonymous(request):
        return respond_public(request, shown, render)
    return _private(render())


def respond_shared(
    request: HttpRequest, shown: Hashable, render: Callable[[], HttpResponse], address: str = ""
) -> HttpResponse:
    """Respond as `respond` does, rendered once for all readers; fill in personal fragments.

    Only `{% personal %}` fragments (`webapp.ui.personal`) may depend on the reader, unless `shown`
    differs between readers. `address`: of the page that this one equals, if it has another.
    """

    def render_for_all() -> HttpResponse:
        personal.share(request)
        return render()

    def whole() -> HttpResponse:
        try:
            page = kept_page(f"shared {_key(request, address)}", shown, "", render_for_all)
            response = HttpResponse(page.body)
        except _NotKeptError as error:
            response = error.response
        response.content = personal.lay_over(request, response.content.decode()).encode()
        return response

    if is_anonymous(request):
        return respond_public(request, shown, whole)
    return _private(_compressed(request, whole()))


def respond_public(
    request: HttpRequest, shown: Hashable, render: Callable[[], HttpResponse], effort: int = EFFORT
) -> HttpResponse:
    """A page that is the same for everybody, compressed once; does not read the session.

    It has the headers that `render` set.
    """
    try:
        page = kept_page(_key(request), shown, chosen(request), render, effort)
    except _NotKeptError as error:
        return error.response
    response = HttpResponse(page.body, headers=page.headers)
    response.setdefault("Cache-Control", "no-cache")
    response.setdefault("Vary", "Accept-Encoding, Accept-Language, Cookie")
    return response


def _key(request: HttpRequest, address: str = "") -> str:
    """Return the cache key: the language and the address, with its query."""
    query = request.META.get("QUERY_STRING", "")
    path = f"{address}{'?' if query else ''}{query}" if address else request.get_full_path()
    return f"{get_language()} {path}"


def _compressed(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Compress a response for one reader: quickly."""
    encoding = chosen(request)
    if encoding:
        response.content = encoded(response.content, encoding, QUICK_EFFORT)
        response["Content-Encoding"] = encoding
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


def _private(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Cookie"])
    return response

"""Whole pages kept in memory for readers who are not signed in.

A page that looks the same to every anonymous reader is rendered and compressed once, and
answered from memory for as long as its stamp (whatever one small query says of its state)
stays the same. Each process keeps its own; nothing needs to be invalidated by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from hashlib import sha256
from operator import attrgetter
from threading import Lock

from cachetools import LRUCache
from django.conf import settings
from django.contrib.auth.models import User
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotModified,
    HttpResponseRedirect,
)
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags, url_has_allowed_host_and_scheme
from django.utils.translation import get_language

from webapp.ui import personal
from webapp.ui.encodings import ENCODINGS, chosen, encoded

MAX_BYTES = 32 * 2**20  # of all kept pages of one process
EFFORT = 10  # of compression: done once for many readers
OWN_EFFORT = 4  # of a page with its reader's own pieces: done for each answer


class Page:
    """A rendered page in every encoding it is sent in, under a tag each."""

    def __init__(self, stamp: Hashable, body: bytes, encodings: Sequence[str] = ENCODINGS) -> None:
        self.stamp = stamp
        self.bodies = {name: encoded(body, name, EFFORT) for name in ("", *encodings)}
        digest = sha256(body).hexdigest()[:24]
        # Strong tags: each names these bytes in this encoding.
        self.etags = {name: f'"{digest}{name and "-" + name}"' for name in self.bodies}
        self.size = sum(map(len, self.bodies.values()))


class PageCache:
    """The kept pages of this process by address, the least recently read forgotten first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._pages: LRUCache[str, Page] = LRUCache(max_bytes, getsizeof=attrgetter("size"))
        self._lock = Lock()  # gunicorn's threads share it

    def get(self, address: str, stamp: Hashable) -> Page | None:
        """The page kept for `address`, if it still bears this stamp."""
        with self._lock:
            page = self._pages.get(address)
        return page if page is not None and page.stamp == stamp else None

    def put(self, address: str, page: Page) -> None:
        """Keep `page`, and forget what is then too much; a page above the limit is not kept."""
        with self._lock, suppress(ValueError):
            self._pages[address] = page

    def clear(self) -> None:
        """Forget every page."""
        with self._lock:
            self._pages.clear()


cache = PageCache()


def signed_in(request: HttpRequest) -> User:
    """The reader of a request that `login_required` let through."""
    assert isinstance(request.user, User)
    return request.user


def back(request: HttpRequest, default: str, anchor: str) -> HttpResponseRedirect:
    """To the page of this site that a form was sent from."""
    page = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(page, allowed_hosts={request.get_host()}):
        page = default
    return HttpResponseRedirect(page + anchor)


def is_anonymous(request: HttpRequest) -> bool:
    """Whether nothing in the request tells this reader from another; touches no session."""
    known = {settings.SESSION_COOKIE_NAME, "messages"}
    return request.method in {"GET", "HEAD"} and known.isdisjoint(request.COOKIES)


def respond(
    request: HttpRequest, stamp: Hashable, render: Callable[[], HttpResponse]
) -> HttpResponse:
    """The page of this address: kept for the anonymous while `stamp` stays, else rendered.

    `render` must depend on nothing but the address, the language and what `stamp` stands for. Only
    answers with status 200 are kept; a conditional request for the same bytes is answered 304.
    """
    return _kept(request, stamp, render) if is_anonymous(request) else _private(render())


def respond_shared(
    request: HttpRequest, stamp: Hashable, render: Callable[[], HttpResponse]
) -> HttpResponse:
    """As `respond`, and rendered once for signed-in readers too: their own pieces are laid over.

    What depends on the reader stands in `{% personal %}` alone (`webapp.ui.personal`).
    """

    def whole() -> HttpResponse:
        address = f"shared {_key(request)}"
        page = cache.get(address, stamp)
        if page is None:
            personal.share(request)
            response = render()
            if response.status_code != 200:
                return _laid_over(request, response)
            page = Page(stamp, response.content, ())
            cache.put(address, page)
        return _laid_over(request, HttpResponse(page.bodies[""]))

    return (
        _kept(request, stamp, whole)
        if is_anonymous(request)
        else _private(_compressed(request, whole()))
    )


def _key(request: HttpRequest) -> str:
    """A page is kept once for each language it was asked for in."""
    return f"{get_language()} {request.get_full_path()}"


def _laid_over(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    response.content = personal.lay_over(request, response.content.decode()).encode()
    return response


def _compressed(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The answer as its one reader takes it: quicker than for many."""
    encoding = chosen(request)
    if encoding:
        response.content = encoded(response.content, encoding, OWN_EFFORT)
        response["Content-Encoding"] = encoding
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


def _private(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Cookie"])
    return response


def _kept(
    request: HttpRequest, stamp: Hashable, render: Callable[[], HttpResponse]
) -> HttpResponse:
    """The page as it is sent to every anonymous reader, compressed once."""
    # From here on the answer is the same for everybody: no session was read.
    address = _key(request)
    encoding = chosen(request)
    page = cache.get(address, stamp)
    if page is None:
        response = render()
        if response.status_code != 200:
            return response
        page = Page(stamp, response.content)
        cache.put(address, page)
    tag = page.etags[encoding]
    response = (
        HttpResponseNotModified()
        if tag in parse_etags(request.headers.get("If-None-Match", ""))
        else HttpResponse(page.bodies[encoding])
    )
    response["ETag"] = tag
    response["Cache-Control"] = "no-cache"
    response["Vary"] = "Accept-Encoding, Accept-Language, Cookie"
    if encoding and response.status_code == 200:
        response["Content-Encoding"] = encoding
    return response

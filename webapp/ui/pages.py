"""Whole pages kept in memory for readers who are not signed in.

A page that looks the same to every anonymous reader is rendered and compressed once, and
answered from memory for as long as its stamp (whatever one small query says of its state)
stays the same. Each process keeps its own; nothing needs to be invalidated by hand.
"""

from __future__ import annotations

import gzip
from collections import OrderedDict
from collections.abc import Callable, Hashable
from hashlib import sha256
from threading import Lock

import brotli
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags

MAX_BYTES = 32 * 2**20  # of all kept pages of one process


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "br": lambda body: brotli.compress(body, mode=brotli.MODE_TEXT, quality=9),
    "gzip": lambda body: gzip.compress(body, 9, mtime=0),
}


class Page:
    """A rendered page in every encoding it is sent in, under a tag each."""

    def __init__(self, stamp: Hashable, body: bytes) -> None:
        self.stamp = stamp
        self.bodies = {"": body} | {name: make(body) for name, make in _COMPRESS.items()}
        digest = sha256(body).hexdigest()[:24]
        # Strong tags: each names these bytes in this encoding.
        self.etags = {name: f'"{digest}{name and "-" + name}"' for name in self.bodies}
        self.size = sum(map(len, self.bodies.values()))


class Shelf:
    """The kept pages of this process, the least recently read forgotten first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._pages: OrderedDict[str, Page] = OrderedDict()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._lock = Lock()

    def get(self, address: str, stamp: Hashable) -> Page | None:
        """The page kept for `address`, if it still bears this stamp."""
        with self._lock:
            page = self._pages.get(address)
            if page is None or page.stamp != stamp:
                return None
            self._pages.move_to_end(address)
            return page

    def put(self, address: str, page: Page) -> None:
        """Keep `page`, and forget what is then too much."""
        with self._lock:
            old = self._pages.pop(address, None)
            self._bytes += page.size - (old.size if old else 0)
            self._pages[address] = page
            while self._bytes > self._max_bytes and len(self._pages) > 1:
                _, forgotten = self._pages.popitem(last=False)
                self._bytes -= forgotten.size

    def clear(self) -> None:
        """Forget every page."""
        with self._lock:
            self._pages.clear()
            self._bytes = 0


shelf = Shelf()


def signed_in(request: HttpRequest) -> User:
    """The reader of a request that `login_required` let through."""
    assert isinstance(request.user, User)
    return request.user


def is_anonymous(request: HttpRequest) -> bool:
    """Whether nothing in the request tells this reader from another; touches no session."""
    known = {settings.SESSION_COOKIE_NAME, "messages"}
    return request.method in {"GET", "HEAD"} and known.isdisjoint(request.COOKIES)


def respond(
    request: HttpRequest, stamp: Hashable, render: Callable[[], HttpResponse]
) -> HttpResponse:
    """The page of this address: kept for the anonymous while `stamp` stays, else rendered.

    `render` must depend on nothing but the address and what `stamp` stands for. Only answers
    with status 200 are kept; a conditional request for the same bytes is answered 304.
    """
    if not is_anonymous(request):
        response = render()
        response["Cache-Control"] = "private, no-cache"
        patch_vary_headers(response, ["Cookie"])
        return response
    address = request.get_full_path()
    encoding = _encoding(request.headers.get("Accept-Encoding", ""))
    page = shelf.get(address, stamp)
    if page is None:
        response = render()
        if response.status_code != 200:
            return response
        page = Page(stamp, response.content)
        shelf.put(address, page)
    tag = page.etags[encoding]
    response = (
        HttpResponseNotModified()
        if tag in parse_etags(request.headers.get("If-None-Match", ""))
        else HttpResponse(page.bodies[encoding])
    )
    response["ETag"] = tag
    response["Cache-Control"] = "no-cache"
    response["Vary"] = "Accept-Encoding, Cookie"
    if encoding and response.status_code == 200:
        response["Content-Encoding"] = encoding
    return response


def _encoding(accepted: str) -> str:
    """The best of br and gzip that the client accepts, or "" for neither."""
    offers = {}
    for offer in accepted.lower().split(","):
        name, _, weight = offer.partition(";")
        offers[name.strip()] = weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return next((name for name in _COMPRESS if offers.get(name)), "")

"""Feeds over HTTP: conditional, compressed, the same bytes until the list changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import urlsplit

from django.conf import settings
from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import http_date, parse_etags, parse_http_date_safe
from django.utils.translation import get_language

from webapp.ui.encodings import ENCODINGS, chosen, encoded
from webapp.ui.feeds import FORMATS, Feed, Item

EFFORT = 5  # of compression: done for each answer
MAX_AGE = 900  # seconds a cache may answer without asking
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Site:
    """Where the site is reached, without a slash at the end: `https://assay.example`."""

    base: str

    def tag(self, name: str) -> str:
        """A tag URI (RFC 4151). It knows no port, so a site that moves to another keeps it."""
        return f"tag:{urlsplit(self.base).hostname},2025:{name}"


@dataclass(frozen=True)
class FeedSource:
    """A list: `name` makes its identity, `home` is the path of its page.

    While its stamp stays the same, its bytes do: `items` are made only when asked for. `updated`
    is when something was last added to the list or left it.
    """

    name: str
    title: str
    description: str
    home: str
    stamp: Hashable
    items: Callable[[Site], Sequence[Item]]
    updated: datetime = NEVER

    def feed(self, site: Site, address: str) -> Feed:
        """The list as it stands now."""
        items = self.items(site)
        updated = max([self.updated, *(item.updated for item in items)])
        home = site.base + self.home
        return Feed(
            site.tag(self.name), self.title, self.description, home, address, updated, items
        )


def respond(request: HttpRequest, suffix: str, source: FeedSource | None) -> HttpResponse:
    """A list in the format of that suffix, or 304 for a client that has it."""
    if source is None:
        raise Http404("There is no such list.")
    here, written = site(request), FORMATS[suffix]
    address = here.base + request.get_full_path()
    # Under which tag these bytes were sent last, and when they changed: 304 without writing them.
    key = sha256(repr((address, get_language(), source.title, source.stamp)).encode()).hexdigest()
    known = cache.get(key)
    if known is not None and (unchanged := conditional(request, *known)):
        return unchanged
    feed = source.feed(here, address)
    body = written.write(feed)
    known = sha256(body).hexdigest()[:32], feed.updated
    cache.set(key, known, timeout=None)
    media_type = f"{written.media_type}; charset=utf-8"
    return conditional(request, *known) or answer(request, body, media_type, *known)


def site(request: HttpRequest) -> Site:
    """Where this site is reached, as configured or as asked."""
    return Site(settings.BASE_URL or f"{request.scheme}://{request.get_host()}")


def _etag(tag: str, encoding: str) -> str:
    """A strong tag: it names these bytes in this encoding."""
    return f'"{tag}-{encoding}"' if encoding else f'"{tag}"'


def conditional(request: HttpRequest, tag: str, updated: datetime) -> HttpResponse | None:
    """304 for a client that has what it would get (RFC 9110, 13.2.2)."""
    asked = request.headers.get("If-None-Match")
    if asked is not None:
        # Weakly compared: what a client has in one encoding is as good in another.
        mine = {_etag(tag, encoding) for encoding in ("", *ENCODINGS)}
        known = {one.removeprefix("W/") for one in parse_etags(asked)}
        has_it = "*" in known or bool(mine & known)
    else:
        since = parse_http_date_safe(request.headers.get("If-Modified-Since", ""))
        has_it = since is not None and int(updated.timestamp()) <= since
    return _labelled(HttpResponseNotModified(), request, tag, updated) if has_it else None


def answer(
    request: HttpRequest, body: bytes, content_type: str, tag: str, updated: datetime
) -> HttpResponse:
    """A whole answer: compressed where the client takes it, open to any page."""
    encoding = chosen(request)
    body = encoded(body, encoding, EFFORT)
    response = HttpResponse(body, content_type=content_type)
    if encoding:
        response["Content-Encoding"] = encoding
    response["Content-Length"] = str(len(body))
    # Readers in a browser: feeds hold nothing private, and any page may read them.
    response["Access-Control-Allow-Origin"] = "*"
    return _labelled(response, request, tag, updated)


def _labelled(
    response: HttpResponse, request: HttpRequest, tag: str, updated: datetime
) -> HttpResponse:
    response["ETag"] = _etag(tag, chosen(request))
    response["Last-Modified"] = http_date(updated.timestamp())
    response["Cache-Control"] = f"public, max-age={MAX_AGE}"
    response["Vary"] = "Accept-Encoding"
    return response

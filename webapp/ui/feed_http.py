"""Feeds over HTTP: conditional, compressed, the same bytes until the list changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import http_date, parse_etags, parse_http_date_safe

from webapp.ui.encodings import ENCODINGS, chosen, encoded
from webapp.ui.feeds import FORMATS, Feed

LOOK = 1  # in every ETag: raise it when the same list is written in another way
EFFORT = 5  # of compression: done for each answer
MAX_AGE = 900  # seconds a cache may answer without asking


@dataclass(frozen=True)
class Site:
    """Where the site is reached, without a slash at the end: `https://assay.example`."""

    base: str

    def tag(self, name: str) -> str:
        """A tag URI (RFC 4151). It knows no port, so a site that moves to another keeps it."""
        return f"tag:{urlsplit(self.base).hostname},2025:{name}"


@dataclass(frozen=True)
class FeedSource:
    """A list as it stands now: same stamp, same bytes. `feed` gets the feed's own address."""

    stamp: Hashable
    updated: datetime
    feed: Callable[[Site, str], Feed]


def respond(request: HttpRequest, suffix: str, source: FeedSource) -> HttpResponse:
    """A list in the format of that suffix, or 304 for a client that has it."""
    here = site(request)
    address = here.base + request.get_full_path()
    tag = _tag((LOOK, suffix, address, source.stamp))
    unchanged = conditional(request, tag, source.updated)
    if unchanged is not None:
        return unchanged
    written = FORMATS[suffix]
    body = written.write(source.feed(here, address))
    return answer(request, body, f"{written.media_type}; charset=utf-8", tag, source.updated)


def site(request: HttpRequest) -> Site:
    """Where this site is reached, as configured or as asked."""
    return Site(settings.BASE_URL or f"{request.scheme}://{request.get_host()}")


def _tag(stamp: Hashable) -> str:
    return sha256(repr(stamp).encode()).hexdigest()[:32]


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

"""Feeds over HTTP: conditional, compressed, the same bytes until the list changes."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.http import http_date

from webapp.ui.encodings import QUICK_EFFORT
from webapp.ui.feeds import FORMATS, Feed, Item
from webapp.ui.pages import respond_public

MAX_AGE = 900  # seconds a cache may answer without asking
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Site:
    """The site's base URL, without a trailing slash: `https://assay.example`."""

    base: str

    def tag(self, name: str) -> str:
        """A tag URI (RFC 4151). It has no port, so it stays the same when the port changes."""
        return f"tag:{urlsplit(self.base).hostname},2025:{name}"

    def item(
        self,
        name: str,
        path: str,
        title: str,
        summary: str,
        *,
        at: datetime,
        words: list[str],
        html: str = "",
        author: str = "Assay",
    ) -> Item:
        """An entry about a page of this site; `words` are categories, `html` comes last."""
        tag, link, whole = self.tag(name), self.base + path, f"<p>{escape(summary)}</p>{html}"
        return Item(tag, link, link, title, summary, whole, [author], words, at, at)


@dataclass(frozen=True)
class FeedSource:
    """A list to publish: its id is made of `name`, `home` is the path of its page.

    `updated` is when something was last added to or removed from the list.
    """

    name: str
    title: str
    description: str
    home: str
    items: Callable[[Site], Sequence[Item]]
    updated: datetime = NEVER
    is_private: bool = False  # its address is a secret

    def feed(self, site: Site, address: str) -> Feed:
        """The list as it is now."""
        items = self.items(site)
        updated = max([self.updated, *(item.updated for item in items)])
        home = site.base + self.home
        return Feed(
            site.tag(self.name), self.title, self.description, home, address, updated, items
        )


def respond(
    request: HttpRequest, suffix: str, shown: Hashable, read: Callable[[], FeedSource]
) -> HttpResponse:
    """A list in the format of `suffix`, or 304 for a client that has it.

    The list must depend only on the address and what `shown` stands for; it is read where there is
    no feed of the same `shown`.
    """
    here, written = site(request), FORMATS[suffix]

    def write() -> HttpResponse:
        source = read()
        feed = source.feed(here, here.base + request.get_full_path())
        body = written.write(feed)
        return as_response(body, written.media_type, feed.updated, is_private=source.is_private)

    response = respond_public(request, (here.base, shown), write, QUICK_EFFORT)
    if written.media_type.endswith("+xml") and "text/html" in request.headers.get("Accept", ""):
        # A browser shows the source of any other type, and applies no style sheet.
        response["Content-Type"] = "application/xml; charset=utf-8"
    return response


def as_response(
    body: bytes, media_type: str, updated: datetime, *, is_private: bool = False
) -> HttpResponse:
    """A response for programs: what is public may be read by pages of any origin, and cached."""
    whose = "private" if is_private else "public"
    headers = {
        **({} if is_private else {"Access-Control-Allow-Origin": "*"}),
        "Cache-Control": f"{whose}, max-age={MAX_AGE}",
        "Last-Modified": http_date(updated.timestamp()),
        "Vary": "Accept, Accept-Encoding",
    }
    return HttpResponse(body, content_type=f"{media_type}; charset=utf-8", headers=headers)


def site(request: HttpRequest) -> Site:
    """This site, by its configured base URL or the request's."""
    return Site(settings.BASE_URL or f"{request.scheme}://{request.get_host()}")

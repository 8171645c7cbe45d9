"""A list as RSS 2.0, Atom and JSON Feed 1.1; lists of feeds as OPML 2.0.

Functions of their arguments and the active language alone: the same list is the same bytes, today
and after a restart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape
from xml.etree.ElementTree import Element, SubElement, tostring

from django.utils.translation import get_language

# What XML 1.0 cannot say at all, not even escaped (https://www.w3.org/TR/xml/#charsets).
_UNSAYABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Item:
    """An entry of a feed. `id` is a tag URI that never changes; `html` is sanitised."""

    id: str
    link: str  # our page
    source: str  # where what it tells of comes from: arXiv's page of a paper
    title: str
    summary: str
    html: str
    authors: Sequence[str]
    categories: Sequence[str]
    published: datetime
    updated: datetime


@dataclass(frozen=True)
class Feed:
    """A list and where it stands: `home` is its page, `address` this feed's own."""

    id: str
    title: str
    description: str
    home: str
    address: str
    updated: datetime
    items: Sequence[Item]


@dataclass(frozen=True)
class Format:
    """How a feed is written and named."""

    name: str
    suffix: str
    media_type: str
    write: Callable[[Feed], bytes]


def rss(feed: Feed) -> bytes:
    """RSS 2.0 (https://www.rssboard.org/rss-specification) with content, dc and atom:link."""
    root = Element(
        "rss",
        {
            "version": "2.0",
            "xmlns:atom": "http://www.w3.org/2005/Atom",
            "xmlns:content": "http://purl.org/rss/1.0/modules/content/",
            "xmlns:dc": "http://purl.org/dc/elements/1.1/",
        },
    )
    channel = SubElement(root, "channel")
    _texts(
        channel,
        title=feed.title,
        link=feed.home,
        description=escape(feed.description),  # readers take it for HTML
        language=str(get_language()),
        lastBuildDate=format_datetime(feed.updated.astimezone(UTC)),
        docs="https://www.rssboard.org/rss-specification",
        generator="Assay",
    )
    SubElement(
        channel,
        "atom:link",
        {"href": _xml_safe(feed.address), "rel": "self", "type": "application/rss+xml"},
    )
    for item in feed.items:
        element = SubElement(channel, "item")
        _texts(element, title=item.title, link=item.link, description=escape(item.summary))
        _text(element, "content:encoded", item.html)
        for author in item.authors:
            _text(element, "dc:creator", author)
        for category in item.categories:
            _text(element, "category", category)
        _text(element, "guid", item.id, isPermaLink="false")
        _text(element, "pubDate", format_datetime(item.published.astimezone(UTC)))
    return _xml(root)


def atom(feed: Feed) -> bytes:
    """Atom (RFC 4287)."""
    root = Element(
        "feed", {"xmlns": "http://www.w3.org/2005/Atom", "xml:lang": str(get_language())}
    )
    _texts(root, id=feed.id, title=feed.title, subtitle=feed.description)
    _text(root, "updated", _moment(feed.updated))
    _text(root, "generator", "Assay")
    _link(root, "self", feed.address, "application/atom+xml")
    _link(root, "alternate", feed.home, "text/html")
    for item in feed.items:
        entry = SubElement(root, "entry")
        _texts(entry, id=item.id, title=item.title)
        _text(entry, "published", _moment(item.published))
        _text(entry, "updated", _moment(item.updated))
        # RFC 4287 4.1.2: an entry has an author, where the feed has none.
        for author in item.authors or ["unknown"]:
            _text(SubElement(entry, "author"), "name", author)
        for category in item.categories:
            SubElement(entry, "category", {"term": _xml_safe(category)})
        _link(entry, "alternate", item.link, "text/html")
        _link(entry, "related", item.source, "text/html")
        _text(entry, "summary", item.summary)
        _text(entry, "content", item.html, type="html")
    return _xml(root)


def json_feed(feed: Feed) -> bytes:
    """JSON Feed 1.1 (https://www.jsonfeed.org/version/1.1/)."""
    data = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": _xml_safe(feed.title),
        "home_page_url": feed.home,
        "feed_url": feed.address,
        "description": _xml_safe(feed.description),
        "language": str(get_language()),
        "items": [
            {
                "id": item.id,
                "url": item.link,
                "external_url": item.source,
                "title": _xml_safe(item.title),
                "content_html": _xml_safe(item.html),
                "summary": _xml_safe(item.summary),
                "date_published": _moment(item.published),
                "date_modified": _moment(item.updated),
                "authors": [{"name": _xml_safe(author)} for author in item.authors],
                "tags": [_xml_safe(category) for category in item.categories],
            }
            for item in feed.items
        ],
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


FORMATS: Mapping[str, Format] = {
    one.suffix: one
    for one in (
        Format("RSS", "rss", "application/rss+xml", rss),
        Format("Atom", "atom", "application/atom+xml", atom),
        Format("JSON Feed", "json", "application/feed+json", json_feed),
    )
}


@dataclass(frozen=True)
class Outline:
    """A feed in a list of feeds."""

    title: str
    feed: str
    home: str


def opml(title: str, changed: datetime, groups: Mapping[str, Sequence[Outline]]) -> bytes:
    """OPML 2.0 (http://opml.org/spec2.opml): subscriptions in named groups."""
    root = Element("opml", {"version": "2.0"})
    head = SubElement(root, "head")
    _text(head, "title", title)
    _text(head, "dateModified", format_datetime(changed.astimezone(UTC)))
    body = SubElement(root, "body")
    for name, outlines in groups.items():
        group = SubElement(body, "outline", {"text": _xml_safe(name)})
        for outline in outlines:
            SubElement(
                group,
                "outline",
                {
                    "type": "rss",
                    "text": _xml_safe(outline.title),
                    "title": _xml_safe(outline.title),
                    "xmlUrl": _xml_safe(outline.feed),
                    "htmlUrl": _xml_safe(outline.home),
                },
            )
    return _xml(root)


def _xml_safe(text: str) -> str:
    """`text` without what XML cannot say."""
    return _UNSAYABLE.sub("", text)


def _text(parent: Element, name: str, text: str, **attributes: str) -> None:
    SubElement(parent, name, attributes).text = _xml_safe(text)


def _texts(parent: Element, **texts: str) -> None:
    for name, text in texts.items():
        _text(parent, name, text)


def _link(parent: Element, rel: str, href: str, media_type: str) -> None:
    SubElement(parent, "link", {"rel": rel, "type": media_type, "href": _xml_safe(href)})


def _moment(moment: datetime) -> str:
    """RFC 3339, to the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _xml(root: Element) -> bytes:
    return (
        b'<?xml version="1.0" encoding="utf-8"?>\n'
        + tostring(root, encoding="unicode").encode()
        + b"\n"
    )

"""A list as RSS 2.0, Atom, JSON Feed 1.1 and Markdown; lists of feeds as OPML 2.0.

They depend only on their arguments and the active language: the same list always gives the same
bytes.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape

from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils.translation import get_language

# Characters that XML 1.0 does not allow, not even escaped (https://www.w3.org/TR/xml/#charsets).
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Where readers of feeds take a list of names apart, or a name from an address.
_SEPARATORS = re.compile(r"[,;()]")
_MARKS = re.compile(r"[\\`*_\[\]#>|~!&]|^[-+](?= )|^\d+(?=[.)] )")


@dataclass(frozen=True)
class Item:
    """An entry of a feed. `id` is a tag URI that never changes; `html` is sanitised."""

    id: str
    link: str  # our page
    source: str  # where its subject comes from: a paper's page at arXiv
    title: str
    summary: str
    html: str
    authors: Sequence[str]
    categories: Sequence[str]
    published: datetime
    updated: datetime
    text: str = ""  # as plain text: a paper's abstract

    @property
    def whole_names(self) -> list[str]:
        """The authors' names, each without what would make it two: "Ada Cole Jr."."""
        return [" ".join(_SEPARATORS.sub(" ", name).split()) for name in self.authors]


@dataclass(frozen=True)
class Feed:
    """A list: `home` is the URL of its page, `address` that of this feed."""

    id: str
    title: str
    description: str
    home: str
    address: str
    updated: datetime
    items: Sequence[Item]


@dataclass(frozen=True)
class Format:
    """A feed format: its writer, suffix and media type."""

    name: str
    suffix: str
    media_type: str
    write: Callable[[Feed], bytes]


Outline = tuple[str, str, str]  # of a feed in a list of feeds: title, address, its page


def opml(title: str, changed: datetime, groups: Mapping[str, Sequence[Outline]]) -> bytes:
    """OPML 2.0 (http://opml.org/spec2.opml): subscriptions in named groups."""
    context = {"title": title, "changed": changed, "groups": groups}
    return _legal_bytes(render_to_string("ui/feeds.opml", context))


def _rss(feed: Feed) -> bytes:
    """RSS 2.0 (https://www.rssboard.org/rss-specification)."""
    return _legal_bytes(
        f"""{_declarations()}
<rss version="2.0"
     xmlns:atom="http://www.w3.org/2005/Atom"
     xmlns:content="http://purl.org/rss/1.0/modules/content/"
     xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel>
<title>{escape(feed.title)}</title>
<link>{escape(feed.home)}</link>
<description>{escape(escape(feed.description))}</description>
<language>{get_language()}</language>
<lastBuildDate>{_rfc_5322(feed.updated)}</lastBuildDate>
<docs>https://www.rssboard.org/rss-specification</docs>
<generator>Assay</generator>
<atom:link href="{escape(feed.address)}" rel="self" type="application/rss+xml"/>
{"".join(map(_rss_item, feed.items))}</channel>
</rss>
"""
    )


def _rss_item(item: Item) -> str:
    # Readers take descriptions for HTML: escaped once as such, and once as XML. The authors are in
    # one element, as arXiv has them: readers of feeds show the last of several.
    names = escape(", ".join(item.whole_names))
    creator = f"<dc:creator>{names}</dc:creator>\n" if item.authors else ""
    categories = "".join(f"<category>{escape(name)}</category>\n" for name in item.categories)
    return f"""<item>
<title>{escape(item.title)}</title>
<link>{escape(item.link)}</link>
<description>{escape(escape(item.summary))}</description>
<content:encoded>{escape(item.html)}</content:encoded>
{creator}{categories}<guid isPermaLink="false">{escape(item.id)}</guid>
<pubDate>{_rfc_5322(item.published)}</pubDate>
</item>
"""


def _atom(feed: Feed) -> bytes:
    """Atom (RFC 4287)."""
    return _legal_bytes(
        f"""{_declarations()}
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="{get_language()}">
<id>{escape(feed.id)}</id>
<title>{escape(feed.title)}</title>
<subtitle>{escape(feed.description)}</subtitle>
<updated>{_moment(feed.updated)}</updated>
<generator>Assay</generator>
<link rel="self" type="application/atom+xml" href="{escape(feed.address)}"/>
<link rel="alternate" type="text/html" href="{escape(feed.home)}"/>
{"".join(map(_atom_entry, feed.items))}</feed>
"""
    )


def _atom_entry(item: Item) -> str:
    # RFC 4287, 4.1.2: an entry has an author, where the feed has none.
    names = item.whole_names or ["unknown"]
    authors = "".join(f"<author><name>{escape(name)}</name></author>\n" for name in names)
    categories = "".join(f'<category term="{escape(name)}"/>\n' for name in item.categories)
    return f"""<entry>
<id>{escape(item.id)}</id>
<title>{escape(item.title)}</title>
<published>{_moment(item.published)}</published>
<updated>{_moment(item.updated)}</updated>
{authors}{categories}<link rel="alternate" type="text/html" href="{escape(item.link)}"/>
<link rel="related" type="text/html" href="{escape(item.source)}"/>
<summary>{escape(item.summary)}</summary>
<content type="html">{escape(item.html)}</content>
</entry>
"""


def _declarations() -> str:
    style = escape(static("css/feed.css"))
    return f"""<?xml version="1.0" encoding="utf-8"?>
<?xml-stylesheet type="text/css" href="{style}"?>"""


def _json_feed(feed: Feed) -> bytes:
    """JSON Feed 1.1 (https://www.jsonfeed.org/version/1.1/)."""
    data = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": feed.title,
        "home_page_url": feed.home,
        "feed_url": feed.address,
        "description": feed.description,
        "language": str(get_language()),
        "items": [
            {
                "id": item.id,
                "url": item.link,
                "external_url": item.source,
                "title": item.title,
                "content_html": item.html,
                "summary": item.summary,
                "date_published": _moment(item.published),
                "date_modified": _moment(item.updated),
                "authors": [{"name": author} for author in item.authors],
                "tags": list(item.categories),
            }
            for item in feed.items
        ],
    }
    return _legal_bytes(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")


def _markdown(feed: Feed) -> bytes:
    """CommonMark with a heading for each day and each paper (https://spec.commonmark.org)."""
    lines = [f"# {_escaped(feed.title)}", _escaped(feed.description)]
    day = None
    for number, item in enumerate(feed.items, 1):
        if item.published.date() != day:
            day = item.published.date()
            lines.append(f"## {day.isoformat()}")
        lines.append(f"### {number}. [{_escaped(item.title)}](<{item.source}>)")
        facts = [("Authors", item.authors), ("Categories", item.categories)]
        lines.append(
            "\n".join(f"- {name}: {_escaped(', '.join(texts))}" for name, texts in facts if texts)
        )
        lines += [_escaped(item.summary), f"> {_escaped(item.text)}" if item.text else ""]
    return _legal_bytes("\n\n".join(filter(None, lines)) + "\n")


def _escaped(text: str) -> str:
    """One line of text in which nothing is a mark of Markdown or a tag of HTML."""
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split())).replace("<", "&lt;")


def _moment(moment: datetime) -> str:
    """RFC 3339, to the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rfc_5322(moment: datetime) -> str:
    return format_datetime(moment.astimezone(UTC))


def _legal_bytes(text: str) -> bytes:
    return _ILLEGAL.sub("", text).encode()


# https://www.rssboard.org/rss-specification with content, dc and atom:link; RFC 4287.
FORMATS: Mapping[str, Format] = {
    form.suffix: form
    for form in (
        Format("RSS", "rss", "application/rss+xml", _rss),
        Format("Atom", "atom", "application/atom+xml", _atom),
        Format("JSON Feed", "json", "application/feed+json", _json_feed),
        Format("Markdown", "md", "text/markdown", _markdown),
    )
}

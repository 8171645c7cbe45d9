"""arXiv's RSS and Atom feeds, from bytes to a `Batch`. No network and no database here.

A feed is untrusted: a bad entry is a `BadEntry` and never costs the others, while a feed that is
cut off, or no feed at all, is a `BrokenFeedError`.
"""

import re
from calendar import timegm
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from io import BytesIO
from itertools import accumulate, pairwise
from typing import Any, NamedTuple
from xml.parsers import expat

import feedparser

from assay_common.text import one_line
from webapp.core.sandbox import UnreadableError
from webapp.papers.days import eastern_date
from webapp.papers.entries import Author, BadEntry, BadEntryError, Batch, Entry, merged, paragraph
from webapp.papers.identifiers import category_names, parse_identifier
from webapp.papers.models import AnnounceType
from webapp.papers.names import unicode_name
from webapp.ui.markup import without_tex

_DECLARATION = re.compile(
    rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"'][^>]*\?>"
)
_PROLOGUE = re.compile(r"^\s*<\?xml[^>]*\?>")
_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ROOT = re.compile(r"<(rss|feed)[\s>]")
_ITEM = re.compile(r"<(?=(?:item|entry)[\s>])")
_ESCAPED = re.compile("[\udc80-\udcff]")  # an undecodable byte, by "surrogateescape"
_NAMED = re.compile(r"(?:oai:arXiv\.org:|arxiv\.org/abs/|arXiv:)([A-Za-z.-]*/?[\d.]+(?:v\d+)?)")
_DESCRIPTION = re.compile(
    r"\s*(?:arXiv:(?P<id>\S+))?\s*(?:Announce\s+Type:\s*(?P<type>[\w-]+))?\s*(?:Abstract:)?", re.I
)
_SUFFIX = re.compile(r"(?:Jr|Sr|II|III|IV|V)\.?")  # of the preceding name
_ERROR_TITLE = re.compile(rb"<title[^>]*>\s*((?:Feed error|Error)[^<]{0,300})", re.I)


class BrokenFeedError(UnreadableError):
    """The answer is not a usable feed; the message says why."""


def parse_feed(body: bytes, category: str, today: date) -> Batch:
    """Parse one category's RSS or Atom feed from rss.arxiv.org.

    `today` (Eastern) is the date of a feed without one. Raises BrokenFeedError.
    """
    text, problems = _well_formed(body)
    parsed = feedparser.parse(
        # As a stream: feedparser would take bytes for a file name first.
        BytesIO(text.encode()),
        # Keep the exact plain text, which is sanitised when HTML is made: feedparser's own
        # sanitiser would take "a<b and c>d" for a tag and cut it out.
        sanitize_html=False,
        resolve_relative_uris=False,
    )
    if not parsed.version:
        raise BrokenFeedError("the answer is neither RSS nor Atom")
    title = str(parsed.feed.get("title", ""))
    if re.match(r"(feed )?error\b", title, re.I):
        raise BrokenFeedError(f"arXiv says: {title[:300]}")
    entries: list[Entry] = []
    for number, item in enumerate(parsed.entries, start=1):
        try:
            entries.append(_entry(item, category))
        except (BadEntryError, ValueError) as error:
            name = str(item.get("id") or item.get("link") or f"entry {number}")
            problems.append(BadEntry(one_line(name)[:120], str(error)))
    if problems and not entries:
        raise BrokenFeedError(f"none of its entries can be read; the first: {problems[0].reason}")
    return Batch(category, _day(parsed.feed, today), merged(entries), tuple(problems))


def error_title(body: bytes) -> str:
    """arXiv's message in an error feed (`Feed error for query: …`), or ""."""
    match = _ERROR_TITLE.search(body[:20_000])
    return one_line(match[1].decode("utf-8", "replace")) if match else ""


def _entry(item: Any, category: str) -> Entry:
    summary = str(item.get("summary", ""))
    described = _DESCRIPTION.match(summary)
    assert described is not None  # every part of the pattern may be empty
    identifier, version = _identify(str(item.get("id", "")), described["id"], item.get("link"))
    kind = str(item.get("arxiv_announce_type") or described["type"] or "").strip().lower()
    if kind not in AnnounceType.values:
        raise BadEntryError(
            f"its announce type is {kind[:40]!r}" if kind else "it has no announce type"
        )
    terms = [str(tag.get("term") or "") for tag in item.get("tags", ())]
    return Entry(
        arxiv_id=identifier,
        version=version,
        type=AnnounceType(kind),
        title=without_tex(one_line(str(item.get("title", "")))),
        abstract=without_tex(paragraph(summary[described.end() :])),
        authors=parse_authors(", ".join(_author_texts(item))),
        categories=category_names(terms) or (category,),
        license=one_line(str(item.get("rights", "")))[:255],
        doi=one_line(str(item.get("arxiv_doi", "")))[:255],
        journal_ref=without_tex(one_line(str(item.get("arxiv_journal_reference", ""))))[:1000],
    )


def _author_texts(item: Any) -> list[str]:
    """The text of each dc:creator; arXiv writes a single one."""
    texts = [str(author.get("name", "")) for author in item.get("authors", ())]
    return [text for text in texts if text] or [str(item.get("author", ""))]


def _identify(guid: str, described: str | None, link: str | None) -> tuple[str, int]:
    """The identifier by guid, else by description, else by link; the version defaults to 1."""
    base: str | None = None
    for text in (guid, described or "", link or ""):
        with suppress(ValueError):
            identifier, version = parse_identifier(text)
            if version is not None and base in (None, identifier):
                return identifier, version
            base = base or identifier
    if base is None:
        raise BadEntryError("it has no arXiv identifier")
    return base, 1


def _day(feed: Any, today: date) -> date:
    """The Eastern date of the batch: pubDate, else lastBuildDate, else `today`."""
    for name in ("published_parsed", "updated_parsed"):
        if moment := feed.get(name):
            with suppress(ValueError, OverflowError, OSError):
                return eastern_date(datetime.fromtimestamp(timegm(moment), UTC))
    return today


def one_by_one(body: bytes) -> Iterator[tuple[str, bytes] | BadEntry]:
    """Each entry's name with a feed of that entry alone, or its problem. Raises BrokenFeedError.

    For a parser that loses the whole feed to one bad entry.
    """
    text, repaired = _decode(body)
    notes = {problem.item: problem for problem in repaired}
    for item in _split_feed(text)[1]:
        if item.name in notes:
            yield notes[item.name]
        yield item.problem or (item.name, item.feed.encode())


def _well_formed(body: bytes) -> tuple[str, list[BadEntry]]:
    """The feed as well-formed XML, and the entries left out or repaired for that."""
    text, problems = _decode(body)
    if _syntax_error(text) is None:
        return text, problems
    before, items, after = _split_feed(text)
    problems += [item.problem for item in items if item.problem]
    return "".join((before, *(item.text for item in items if not item.problem), after)), problems


class _Item(NamedTuple):
    """The text of an entry, a feed of that entry alone, and why it is not well-formed."""

    name: str
    text: str
    feed: str
    problem: BadEntry | None


def _split_feed(text: str) -> tuple[str, list[_Item], str]:
    """The feed's text before the entries, the entries, and the text after them."""
    root = _ROOT.search(text)
    if root is None:
        raise BrokenFeedError(f"the answer is neither RSS nor Atom ({_syntax_error(text)})")
    if not re.search(rf"</{root[1]}\s*>$", text):
        raise BrokenFeedError("the feed is cut off before its end")
    # An entry extends to the start of the next one, so that a missing end tag costs one entry.
    end = max(text.rfind("</channel" if root[1] == "rss" else "</feed"), 0)
    (before, *parts), after = _ITEM.split(text[:end]), text[end:]
    outside = _syntax_error(before + after)
    if outside is not None:
        raise BrokenFeedError(f"the feed is broken outside its entries: {outside}")
    opening = text[root.start() : text.index(">", root.start()) + 1]
    items = []
    for number, part in enumerate(parts, start=1):
        item = f"<{part}"
        name, feed = _name(item, number), f"{opening}{item}</{root[1]}>"
        error = _syntax_error(feed)
        problem = BadEntry(name, f"it is not well-formed XML: {error}") if error else None
        items.append(_Item(name, item, feed, problem))
    return before, items, after


def _decode(body: bytes) -> tuple[str, list[BadEntry]]:
    """The body decoded by its byte-order mark or declaration, else as UTF-8, without illegal XML.

    Undecodable bytes are read as Windows-1252, which they nearly always are, and reported as a
    problem of their entry.
    """
    encoding = "utf-8-sig"
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif declared := _DECLARATION.match(body):
        encoding = declared[1].decode().lower()
        encoding = "utf-8-sig" if encoding in {"utf-8", "utf8"} else encoding
    errors = "strict" if encoding == "utf-16" else "surrogateescape"
    try:
        text = body.decode(encoding, errors)
    except LookupError:
        raise BrokenFeedError(f"the feed is in an unknown encoding, {encoding!r}") from None
    except UnicodeError:
        raise BrokenFeedError(f"the feed is not valid {encoding.upper()}") from None
    reason = f"not valid {encoding.removesuffix('-sig')}: read as Windows-1252 and kept"
    problems = [
        BadEntry(_name(part, number) if number else "feed", reason)
        for number, part in enumerate(_ITEM.split(text))
        if _ESCAPED.search(part)
    ]
    text = _PROLOGUE.sub("", _ESCAPED.sub(_as_windows_1252, text), count=1)
    text = _ILLEGAL.sub("", text).strip()
    if not text.startswith("<"):
        raise BrokenFeedError("the answer is not XML")
    return text, problems


def _as_windows_1252(escaped: re.Match[str]) -> str:
    return bytes([ord(escaped[0]) - 0xDC00]).decode("cp1252", "replace")


def _syntax_error(text: str) -> str | None:
    """Return the reason why `text` is not well-formed XML, or None if it is."""
    parser = expat.ParserCreate(encoding="utf-8", namespace_separator=" ")
    # Feeds need no entity declarations, which can expand without limit.
    parser.EntityDeclHandler = _refuse_entities
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        return str(error)
    return None


def _refuse_entities(*_: object) -> None:
    raise BrokenFeedError("the feed declares entities of its own")


def _name(item: str, number: int) -> str:
    match = _NAMED.search(item)
    return match[1] if match else f"entry {number}"


def parse_authors(text: str) -> tuple[Author, ...]:
    """The authors in the text of dc:creator, `A. Bee (Sea, Dee), E. Eff`.

    Affiliations contain commas and parentheses. Unbalanced parentheses count as letters: better a
    stray one in a name than every author after it lost in an affiliation.
    """
    text = one_line(text).replace("\\,", " ")  # a thin space separates no authors
    authors: list[Author] = []
    for part in _split(text) or text.split(","):
        author = _author(part.strip())
        if authors and author and not author.affiliation and _SUFFIX.fullmatch(author.name):
            last = authors.pop()
            author = Author(f"{last.name}, {author.name}", last.affiliation)
        if author:
            authors.append(author)
    return tuple(authors)


def _split(text: str) -> list[str] | None:
    """`text` split at its commas outside parentheses; None if parentheses are unbalanced."""
    depths = [0, *accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in text)]
    if min(depths) < 0 or depths[-1]:
        return None
    outside = [index for index, letter in enumerate(text) if letter == "," and not depths[index]]
    return [text[start + 1 : end] for start, end in pairwise([-1, *outside, len(text)])]


def _author(part: str) -> Author | None:
    part = unicode_name(part)
    name, opened, rest = part.partition(" (")
    if opened and rest.endswith(")") and name:
        return Author(name.strip(), rest[:-1].strip())
    if part.startswith("(") and part.endswith(")"):  # "(the Lantern Collaboration)"
        part = part[1:-1].strip()
    return Author(part) if re.search(r"\w", part) else None  # "NVIDIA, :, Ada Cole"

"""Learn from a Zotero library: its papers are liked, and kept in step by its API.

Zotero counts a library's changes. A reading asks for what changed since the last one (`since`, with
the headers of https://www.zotero.org/support/dev/web_api/v3/syncing), and costs one request where
nothing did (304). What was added later weighs more.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext
from pydantic import BaseModel, Field, TypeAdapter

from webapp.library import zotero
from webapp.library.models import ZoteroItem, ZoteroReading
from webapp.papers.identifiers import identifiers_in

PAGE = 100  # objects of an answer, Zotero's limit
MAX_ITEMS = 20_000  # items of a library
MAX_COLLECTIONS = 5_000
NO_PAPERS = {"attachment", "note", "annotation"}
HALF = 365.0  # days before the latest addition in which an item's weight halves
LEAST = 0.5  # weight of the oldest


class _Named(BaseModel):
    name: str
    parent: str | bool = Field("", alias="parentCollection")


class _Collection(BaseModel):
    key: str = Field(max_length=8)
    data: _Named


class _Deleted(BaseModel):
    items: list[str]


COLLECTIONS, DELETED = TypeAdapter(list[_Collection]), TypeAdapter(_Deleted)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(reader: User) -> int:
    """Bring the reader's items up to date with their Zotero library; how many changed.

    One transaction after all answers have come: a reading that fails changes nothing. Raises
    ZoteroError.
    """
    account = zotero.account(reader)
    if account is None:
        return 0
    reading = ZoteroReading.objects.get_or_create(reader=reader)[0]
    with zotero.connected(account) as server:
        changed, version = _changed_since(server, reading.version)
        collections = _collections(server) if version != reading.version else reading.collections
        gone = (
            zotero.parse(DELETED, server.read("/deleted", since=reading.version)).items
            if reading.version and version != reading.version
            else []
        )
    gone = [*gone, *(item.key for item in changed if not _is_paper(item.data))]
    each = {item.key: item for item in changed if _is_paper(item.data)}
    papers = [_item(reader, item) for item in each.values()]
    with transaction.atomic():
        ZoteroReading.objects.filter(pk=reading.pk).update(
            version=version, collections=collections, read_at=timezone.now(), error=""
        )
        ZoteroItem.objects.filter(reader=reader, key__in=gone).delete()
        ZoteroItem.objects.bulk_create(
            papers,
            update_conflicts=True,
            unique_fields=["reader", "key"],
            update_fields=["title", "abstract", "arxiv_id", "added_at", "collections"],
        )
    return len(papers) + len(gone)


def _changed_since(
    server: zotero.ZoteroServer, since: int
) -> tuple[list[zotero.ZoteroRecord], int]:
    """The top-level items that changed, and the library's version.

    Read again where the library changes between two pages.
    """
    for _ in range(zotero.TRIES):
        items: list[zotero.ZoteroRecord] = []
        version = None
        while len(items) < MAX_ITEMS:
            answer = server.read("/items/top", unless=since, since=since, start=len(items))
            if answer.status_code == 304:
                return [], since
            now = _number(answer.headers.get("last-modified-version", ""))
            if version not in (None, now):
                break
            version, page = now, zotero.parse(zotero.ITEMS, answer)
            items += page
            total = _number(answer.headers.get("total-results", "0"))
            if not page or len(items) >= min(total, MAX_ITEMS):
                return items[:MAX_ITEMS], now
    raise zotero.ZoteroError(zotero.CHANGING)


def _collections(server: zotero.ZoteroServer) -> list[dict[str, str]]:
    """[{"key", "name", "parent"}], where `parent` is "" at the top."""
    collections: list[dict[str, str]] = []
    while len(collections) < MAX_COLLECTIONS:
        page = zotero.parse(COLLECTIONS, server.read("/collections", start=len(collections)))
        collections += [
            {
                "key": collection.key,
                "name": collection.data.name[:300],
                "parent": str(collection.data.parent or "")[:8],
            }
            for collection in page
        ]
        if len(page) < PAGE:
            break
    return sorted(collections, key=lambda collection: collection["name"].casefold())


def _number(text: str) -> int:
    """Return a number of a header. Raises ZoteroError."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise zotero.ZoteroError(gettext("Zotero’s answer could not be read."))
    return int(text)


def _is_paper(data: dict[str, Any]) -> bool:
    is_other = str(data.get("itemType")) in NO_PAPERS
    return bool(data.get("title")) and not is_other and not data.get("deleted")


def _item(reader: User, item: zotero.ZoteroRecord) -> ZoteroItem:
    added, data = None, item.data
    with suppress(ValueError):  # no such day
        added = parse_datetime(str(data.get("dateAdded") or ""))
    return ZoteroItem(
        reader=reader,
        key=item.key,
        title=" ".join(str(data["title"]).split())[:500],
        abstract=str(data.get("abstractNote") or "")[:5_000],
        arxiv_id=_arxiv_id(data),
        added_at=EPOCH if added is None else added if added.tzinfo else added.replace(tzinfo=UTC),
        collections=item.collections,
    )


def _arxiv_id(data: dict[str, Any]) -> str:
    """Return the item's identifier at arXiv; "" for none."""
    for name in ("archiveID", "DOI", "url", "number", "reportNumber", "callNumber"):
        if named := identifiers_in(str(data.get(name) or "")[:2_000], strict=True):
            return named[0]
    running = (str(data.get(name) or "")[:2_000] for name in ("publicationTitle", "extra"))
    return next((named[0] for named in map(identifiers_in, running) if named), "")


def liked(reader: User) -> list[tuple[ZoteroItem, float]]:
    """The items that the reader learns from, the latest first, each with its weight up to 1."""
    reading = ZoteroReading.objects.filter(reader=reader).first()
    if reading is None:
        return []
    included = with_children(reading.collections, reading.include)
    excluded = with_children(reading.collections, reading.exclude)
    items = [
        item
        for item in ZoteroItem.objects.filter(reader=reader)
        if (not included or included & {*item.collections}) and not excluded & {*item.collections}
    ]
    return [
        (item, max(LEAST, 0.5 ** ((items[0].added_at - item.added_at).days / HALF)))
        for item in items
    ]


def with_children(collections: Iterable[dict[str, str]], chosen: Iterable[str]) -> set[str]:
    """The keys of the chosen collections and of all below them."""
    keys = {*chosen}
    remaining = list(collections)
    while more := {each["key"] for each in remaining if each["parent"] in keys} - keys:
        keys |= more
    return keys


def forget(reader: User) -> None:
    """Delete everything read from a reader's Zotero library."""
    with transaction.atomic():
        ZoteroReading.objects.filter(reader=reader).delete()
        ZoteroItem.objects.filter(reader=reader).delete()


def read_all() -> int:
    """`read` for every reader who learns from Zotero; how many libraries changed.

    A library that cannot be read keeps what was read, and its reader is told why.
    """
    changed = 0
    for reading in ZoteroReading.objects.select_related("reader").filter(reader__is_active=True):
        try:
            changed += bool(read(reading.reader))
        except zotero.ZoteroError as error:
            ZoteroReading.objects.filter(pk=reading.pk).update(error=str(error)[:500])
    return changed

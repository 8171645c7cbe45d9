"""Zotero's API, and papers of a library sent by it (https://www.zotero.org/support/dev/web_api/v3).

An item's key is derived from the paper's identifier, so that sending again makes no duplicates: an
object written at version 0 is refused if it exists, and no write token is needed.
"""

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models.signals import post_delete
from django.dispatch import receiver
from django.utils.translation import gettext, gettext_lazy
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from assay_common.files import write_whole
from assay_common.text import clean_json
from webapp.papers import citations
from webapp.papers.deadline import Deadline
from webapp.papers.fetch import retry_after
from webapp.papers.models import Paper
from webapp.papers.names import Name
from webapp.ui.markup import plain

API = "https://api.zotero.org"
ALPHABET = "23456789ABCDEFGHIJKLMNPQRSTUVWXYZ"  # of Zotero's keys
AT_ONCE = 50  # objects of a request
LONGEST_NAME = 255  # characters of a creator's first or last name that Zotero takes
PATIENCE = 10.0  # seconds of all waits that the server may ask for
TRIES = 3
MAX_BODY = 30 * 2**20  # bytes of an answer: a hundred items with long abstracts have a million
MAX_SECONDS = 900.0  # of all requests of a connection
CHANGING = gettext_lazy("Another program is changing this Zotero library: try again.")


class ZoteroError(Exception):
    """Zotero refused a request or was not reached; the message says what to do."""


class ZoteroRecord(BaseModel):
    """An item of a library; nothing is known of its data but that these have names."""

    key: str = Field(min_length=1, max_length=8)
    version: int = 0
    data: dict[str, Any]

    @property
    def collections(self) -> list[str]:
        """The keys of the collections that it is in."""
        listed = self.data.get("collections")
        return [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []


class _Failure(BaseModel):
    code: int
    message: str = ""


class _Written(BaseModel):
    failed: dict[int, _Failure]


Shape = TypeVar("Shape")
ITEMS, WRITTEN = TypeAdapter(list[ZoteroRecord]), TypeAdapter(_Written)


def parse(shape: TypeAdapter[Shape], answer: httpx2.Response) -> Shape:
    """Return an answer without invisible characters. Raises ZoteroError if it is malformed."""
    try:
        return shape.validate_python(clean_json(answer.json()))
    except (ValidationError, ValueError, RecursionError) as error:
        raise ZoteroError(gettext("Zotero’s answer could not be read.")) from error


class Account(BaseModel):
    """A library and a key to write to it, kept in a file that only its owner can read."""

    library: str  # users/123 or groups/123
    key: str


def _file(reader: User) -> Path:
    return settings.DATA_DIR / "zotero" / str(reader.pk)


def account(reader: User) -> Account | None:
    """The reader's account, if one is connected."""
    try:
        return Account.model_validate_json(_file(reader).read_text())
    except FileNotFoundError:
        return None


def connect(reader: User, given: Account | None) -> None:
    """Store a reader's account, or delete it."""
    path = _file(reader)
    if given is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(path, given.model_dump_json().encode(), mode=0o600)


@receiver(post_delete, sender=User)
def forget(instance: User, **_: object) -> None:
    """Delete the account of a deleted reader."""
    connect(instance, None)


def send(to: Account, name: str, papers: Sequence[Paper]) -> tuple[int, int]:
    """Put papers into the collection `name`, creating it if needed; returns how many are new, and
    how many Zotero had already. Raises ZoteroError.

    The latter stay in their other collections, too. What was written before a failure stays, and
    sending again continues from there.
    """
    with connected(to) as server:
        collection = _key(f"collection {name}")
        server.write("collections", [{"key": collection, "version": 0, "name": name[:255]}])
        there: list[str] = []
        for start in range(0, len(papers), AT_ONCE):
            batch = [_item(paper, collection) for paper in papers[start : start + AT_ONCE]]
            there += server.write("items", batch)
        for start in range(0, len(there), AT_ONCE):
            server.add_to(collection, there[start : start + AT_ONCE])
    return len(papers) - len(there), len(there)


@contextmanager
def connected(to: Account) -> "Iterator[ZoteroServer]":
    """The server, with the account's library and key."""
    headers = {"Zotero-API-Version": "3", "Zotero-API-Key": to.key}
    with (
        Deadline(MAX_SECONDS) as deadline,
        httpx2.Client(base_url=f"{API}/{to.library}", headers=headers, timeout=20) as http,
    ):
        yield ZoteroServer(http, deadline)


class ZoteroServer:
    """Zotero's server, with the pauses between requests that it asks for."""

    def __init__(self, http: httpx2.Client, deadline: Deadline) -> None:
        self._http, self._deadline = http, deadline
        self._patience, self._not_before = PATIENCE, 0.0

    def read(self, path: str, *, unless: int = 0, **asked: int) -> httpx2.Response:
        """A page of objects; 304 if the library has no later version than `unless`."""
        headers = {"If-Modified-Since-Version": str(unless)} if unless else {}
        return self._ask("GET", path, headers=headers, params={"limit": 100, **asked})

    def write(self, kind: str, objects: Sequence[dict[str, Any]]) -> list[str]:
        """Write objects; returns the keys of those that exist in another version."""
        failed = parse(WRITTEN, self._ask("POST", f"/{kind}", content=json.dumps(objects))).failed
        for error in failed.values():
            if error.code != 412:
                raise ZoteroError(f"Zotero refused an object: {error.message[:200]}")
        return [objects[place]["key"] for place in failed if 0 <= place < len(objects)]

    def add_to(self, collection: str, keys: Sequence[str]) -> None:
        """Add existing items to a collection, and retry those that change in the meantime."""
        for _ in range(TRIES):
            items = parse(ITEMS, self._ask("GET", "/items", params={"itemKey": ",".join(keys)}))
            changed = [
                {"key": item.key, "version": item.version,
                 "collections": [*item.collections, collection]}
                for item in items
                if collection not in item.collections
            ]  # fmt: skip
            if not changed or not (keys := self.write("items", changed)):
                return
        raise ZoteroError(CHANGING)

    def _ask(self, verb: str, path: str, **sent: Any) -> httpx2.Response:
        for _ in range(TRIES):
            self._wait(self._not_before - time.monotonic())
            try:
                answer = self._request(verb, path, **sent)
            except httpx2.HTTPError as error:
                raise ZoteroError(gettext("Zotero could not be reached: %s") % error) from error
            delay = answer.headers.get("backoff") or answer.headers.get("retry-after") or "0"
            pause = retry_after(delay)
            self._not_before = time.monotonic() + (1.0 if pause is None else pause)
            if answer.status_code not in {429, 503}:
                break
        if answer.status_code in {403, 404}:
            if verb == "GET":
                raise ZoteroError(gettext("This key may not read this Zotero library."))
            raise ZoteroError(gettext("This key may not write to this Zotero library."))
        if answer.is_error:
            raise ZoteroError(f"Zotero answered {answer.status_code}: {answer.text[:200]}")
        return answer

    def _request(self, verb: str, path: str, **sent: Any) -> httpx2.Response:
        """Return an answer with its body. Raises ZoteroError, HTTPError."""
        watch = {"trace": self._deadline.watch}
        with self._http.stream(verb, path, extensions=watch, **sent) as answer:
            body = bytearray()
            for part in answer.iter_bytes(2**16):
                body += part
                if len(body) > MAX_BODY:
                    raise ZoteroError(gettext("Zotero’s answer is too long to be read."))
        packed = {"content-encoding", "content-length", "transfer-encoding"}
        headers = [(name, value) for name, value in answer.headers.items() if name not in packed]
        return httpx2.Response(answer.status_code, headers=headers, content=bytes(body))

    def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            return
        self._patience -= seconds
        if self._patience < 0:
            wait = gettext("Zotero asks you to wait %d s. Then send again.")
            raise ZoteroError(wait % math.ceil(seconds))
        time.sleep(seconds)


def _key(text: str) -> str:
    number = int.from_bytes(sha256(text.encode()).digest()[:8])
    return "".join(ALPHABET[number // 33**place % 33] for place in range(8))


def _creator(name: Name) -> dict[str, str]:
    """An author; Zotero has no field for a suffix, and reads it after a comma of the first name."""
    if not name.family:
        return {"creatorType": "author", "name": name.inverted[:LONGEST_NAME]}
    first = ", ".join(filter(None, (name.given, name.suffix)))[:LONGEST_NAME]
    return {"creatorType": "author", "firstName": first, "lastName": name.last[:LONGEST_NAME]}


def _item(paper: Paper, collection: str) -> dict[str, Any]:
    """A paper as Zotero's preprint."""
    day = citations.published(paper)
    return {
        "key": _key(paper.arxiv_id),
        "version": 0,
        "itemType": "preprint",
        "title": plain(paper.title),
        "creators": [_creator(name) for name in citations.authors(paper)],
        "abstractNote": plain(paper.abstract),
        "repository": "arXiv",
        "archiveID": f"arXiv:{paper.arxiv_id}",
        "date": day.isoformat() if day else str(citations.year(paper)),
        "DOI": citations.doi(paper),
        "extra": citations.note(paper),
        "url": f"https://arxiv.org/abs/{paper.arxiv_id}",
        "tags": [{"tag": category} for category in paper.categories],
        "collections": [collection],
    }

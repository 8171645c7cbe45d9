"""Zotero's API, by which a library is read (https://www.zotero.org/support/dev/web_api/v3)."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
from webapp.papers.deadline import Deadline
from webapp.papers.fetch import retry_after

API = "https://api.zotero.org"
MOST_WAIT = 10.0  # seconds of all waits that the server may ask for
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


Shape = TypeVar("Shape")
ITEMS = TypeAdapter(list[ZoteroRecord])


def parse(shape: TypeAdapter[Shape], answer: httpx2.Response) -> Shape:
    """Return an answer without invisible characters. Raises ZoteroError if it is malformed."""
    try:
        return shape.validate_python(clean_json(answer.json()))
    except (ValidationError, ValueError, RecursionError) as error:
        raise ZoteroError(gettext("Zotero’s answer could not be read.")) from error


class Account(BaseModel):
    """A library and a key to read it, kept in a file that only its owner can read."""

    library: str  # users/123 or groups/123
    key: str


def _file(reader: User) -> Path:
    return settings.DATA_DIR / "zotero" / str(reader.pk)


def account(reader: User) -> Account | None:
    """Return the reader's account, if one is connected."""
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


@contextmanager
def connected(to: Account) -> "Iterator[ZoteroServer]":
    """Yield the server, with the account's library and key."""
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
        self._wait_left, self._not_before = MOST_WAIT, 0.0

    def read(self, path: str, *, unless: int = 0, **asked: int) -> httpx2.Response:
        """Return a page of objects; 304 if the library has no later version than `unless`."""
        headers = {"If-Modified-Since-Version": str(unless)} if unless else {}
        return self._ask(path, headers=headers, params={"limit": 100, **asked})

    def _ask(self, path: str, **sent: Any) -> httpx2.Response:
        for _ in range(TRIES):
            self._wait(self._not_before - time.monotonic())
            try:
                answer = self._request(path, **sent)
            except httpx2.HTTPError as error:
                raise ZoteroError(gettext("Zotero could not be reached: %s") % error) from error
            delay = answer.headers.get("backoff") or answer.headers.get("retry-after") or "0"
            pause = retry_after(delay)
            self._not_before = time.monotonic() + (1.0 if pause is None else pause)
            if answer.status_code not in {429, 503}:
                break
        if answer.status_code in {403, 404}:
            raise ZoteroError(gettext("This key may not read this Zotero library."))
        if answer.is_error:
            raise ZoteroError(f"Zotero answered {answer.status_code}: {answer.text[:200]}")
        return answer

    def _request(self, path: str, **sent: Any) -> httpx2.Response:
        """Return an answer with its body. Raises ZoteroError, HTTPError."""
        watch = {"trace": self._deadline.watch}
        with self._http.stream("GET", path, extensions=watch, **sent) as answer:
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
        self._wait_left -= seconds
        if self._wait_left < 0:
            wait = gettext("Zotero asks you to wait %d s. Then read again.")
            raise ZoteroError(wait % math.ceil(seconds))
        time.sleep(seconds)

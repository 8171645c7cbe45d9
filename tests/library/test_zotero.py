"""The connection to Zotero: its pauses and refusals, and the key that is kept in a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_httpserver import HTTPServer
from werkzeug import Response

from tests import factories
from tests.servers.zotero import ZoteroLibrary
from webapp.library import zotero

pytestmark = pytest.mark.django_db
KEY = "AbcdEfgh12345678"
ADDRESS = "/library/zotero/"
ACCOUNT = {"library": "users/1", "key": KEY}


@pytest.fixture
def server(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> ZoteroLibrary:
    made = ZoteroLibrary(KEY)
    for path in ("items/top", "collections", "deleted"):
        httpserver.expect_request(f"/users/1/{path}").respond_with_handler(made)
    httpserver.expect_request("/users/2/items/top").respond_with_data("Not found", 404)
    monkeypatch.setattr(zotero, "API", httpserver.url_for("").rstrip("/"))
    settings.DATA_DIR = tmp_path
    return made


@pytest.fixture
def reader() -> User:
    made: User = factories.make_reader()
    return made


@pytest.fixture
def client(reader: User) -> Client:
    made = Client()
    made.force_login(reader)
    return made


def test_it_waits_as_long_as_it_is_told(
    server: ZoteroLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=lambda: 0.0)
    monkeypatch.setattr(zotero, "time", clock)

    def read_twice(*answers: Response) -> None:
        server.answers = [*answers]
        with zotero.connected(zotero.Account(**ACCOUNT)) as connection:
            for _ in range(2):
                assert connection.read("/items/top").status_code == 200

    read_twice(
        Response("slow", 429, headers={"Retry-After": "3"}),
        Response("down", 503, headers={"Retry-After": "2"}),
    )
    assert slept == [3, 2]
    read_twice(Response("[]", headers={"Backoff": "4"}))
    assert slept == [3, 2, 4]
    for asked, waited in (("60", 60), ("9" * 400, 3600), ("Wed, 01 Jan 2098 00:00:00 GMT", 3600)):
        with pytest.raises(zotero.ZoteroError, match=f"asks you to wait {waited} s"):
            read_twice(Response("slow", 429, headers={"Retry-After": asked}))


@pytest.mark.parametrize(
    ("account", "answer", "words"),
    [
        ({"library": "users/2"}, None, "key may not read this Zotero library"),
        ({"key": "WrongWrong"}, None, "key may not read this Zotero library"),
        ({}, Response("The library is locked", 409), "409: The library is locked"),
    ],
)
def test_a_refusal_is_said_in_words(
    client: Client, server: ZoteroLibrary, account: dict[str, str], answer: Any, words: str
) -> None:
    client.post(ADDRESS, ACCOUNT | account)
    server.answers = [answer] if answer else []
    assert words in client.post(ADDRESS, {"read": "1"}, follow=True).content.decode()


def test_the_key_is_kept_in_a_file_and_never_shown(
    client: Client, reader: User, server: ZoteroLibrary, tmp_path: Path
) -> None:
    for wrong in ({"library": "users/../keys"}, {"key": "a b"}):
        assert client.post(ADDRESS, ACCOUNT | wrong).status_code == 422
    before = os.umask(0)  # what the process keeps to itself anyway is not what is asked here
    client.post(ADDRESS, ACCOUNT)
    os.umask(before)
    (file,) = (tmp_path / "zotero").iterdir()
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert KEY not in client.get(ADDRESS).content.decode()
    assert "users/1" in client.get(ADDRESS).content.decode()
    client.post(ADDRESS, {"forget": "1"})
    assert not file.exists()
    client.post(ADDRESS, ACCOUNT)
    reader.delete()
    assert not file.exists()


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zotero, "API", "http://127.0.0.1:1")
    with (
        zotero.connected(zotero.Account(**ACCOUNT)) as connection,
        pytest.raises(zotero.ZoteroError, match="could not be reached"),
    ):
        connection.read("/items/top")

"""A list goes to a Zotero library, by a server of this machine's that keeps Zotero's rules."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests import factories
from tests.servers.zotero_schema import faults, preprint_of
from webapp.library import zotero
from webapp.library.models import Star
from webapp.papers import citations

pytestmark = pytest.mark.django_db
KEY = "AbcdEfgh12345678"


class Zotero:
    """Libraries as https://www.zotero.org/support/dev/web_api/v3/write_requests describes them."""

    def __init__(self) -> None:
        self.version = 7
        self.objects: dict[str, dict[str, dict[str, Any]]] = {"items": {}, "collections": {}}
        self.requests: list[str] = []
        self.answers: list[Response] = []  # given before anything else
        self.on_read = lambda: None

    def __call__(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.path}")
        if self.answers:
            return self.answers.pop(0)
        assert request.headers["Zotero-API-Version"] == "3"
        if request.headers["Zotero-API-Key"] != KEY or "/users/1/" not in request.path:
            return Response("Forbidden", 403)
        kept = self.objects[request.path.rpartition("/")[2]]
        if request.method == "GET":
            wanted = request.args["itemKey"].split(",")
            assert len(wanted) <= 50
            found = [{"key": k, "version": kept[k]["version"], "data": kept[k]} for k in wanted]
            answer = Response(json.dumps(found))
            self.on_read()
            return answer
        sent = json.loads(request.get_data())
        if len(sent) > 50:
            return Response("Too many items submitted", 413)
        if any("version" not in one for one in sent):
            return Response("Precondition required", 428)
        self.version += 1
        failed, successful = {}, {}
        for place, one in enumerate(sent):
            known = kept.get(one["key"], {"version": 0})
            if known["version"] != one["version"]:
                failed[str(place)] = {"key": one["key"], "code": 412, "message": "modified since"}
                continue
            if kept is self.objects["items"] and not one["version"] and (wrong := faults(one)):
                failed[str(place)] = {"key": one["key"], "code": 400, "message": wrong[0]}
                continue
            kept[one["key"]] = known | one | {"version": self.version}
            successful[str(place)] = kept[one["key"]]
        answer = {"successful": successful, "unchanged": {}, "failed": failed}
        return Response(json.dumps(answer), headers={"Last-Modified-Version": str(self.version)})


@pytest.fixture
def server(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path,
           ) -> Iterator[Zotero]:  # fmt: skip
    made = Zotero()
    for path in ("/users/1/items", "/users/1/collections", "/users/2/collections"):
        httpserver.expect_request(path).respond_with_handler(made)
    monkeypatch.setattr(zotero, "API", httpserver.url_for("").rstrip("/"))
    settings.DATA_DIR = tmp_path
    yield made
    httpserver.check_assertions()


@pytest.fixture
def reader() -> User:
    made: User = factories.make_reader()
    for number in range(1, 4):
        Star.objects.create(reader=made, paper=factories.make_paper(number))
    return made


@pytest.fixture
def client(reader: User) -> Client:
    made = Client()
    made.force_login(reader)
    return made


ADDRESS = "/library/zotero/?show=saved"
ACCOUNT = {"library": "users/1", "key": KEY}


def test_a_list_is_sent_once_however_often_it_is_sent(client: Client, server: Zotero) -> None:
    client.post(ADDRESS, ACCOUNT)
    page = client.post(ADDRESS, {"send": "1"}, follow=True).content.decode()
    assert "3 sent; 0 were already there" in page
    (collection,) = server.objects["collections"].values()
    assert collection["name"] == "Saved"
    items = list(server.objects["items"].values())
    assert {one["archiveID"] for one in items} == {f"arXiv:2603.0000{n}" for n in (1, 2, 3)}
    first = items[0]
    assert (first["itemType"], first["repository"]) == ("preprint", "arXiv")
    assert first["collections"] == [collection["key"]]
    assert first["creators"][0]["lastName"]
    page = client.post(ADDRESS, {"send": "1"}, follow=True).content.decode()
    assert "0 sent; 3 were already there" in page
    assert len(server.objects["items"]) == 3


def test_what_is_there_joins_another_collection_and_keeps_its_own(
    client: Client, reader: User, server: Zotero
) -> None:
    to = zotero.Account(**ACCOUNT)
    papers = [star.paper for star in Star.objects.filter(reader=reader)]
    zotero.send(to, "One", papers)
    for item in server.objects["items"].values():
        item["extra"] = "a note of the reader's"
    changes = iter([1])

    def change() -> None:  # somebody else writes between our reading and writing
        for _ in changes:
            server.version += 1
            next(iter(server.objects["items"].values()))["version"] = server.version

    server.on_read = change
    assert zotero.send(to, "Two", papers) == (0, 3)
    for item in server.objects["items"].values():
        assert len(item["collections"]) == 2
        assert item["extra"] == "a note of the reader's"


NAMES = ["Ludwig van Beethoven", "Ada Cole III", "The ATLAS Collaboration", "Plato", ":", "", " "]
NAMES += ["A team of " + "very " * 80 + "many", "Ada " + "B. " * 200 + "Cole", "Ada " + "x" * 300]


def test_zotero_takes_every_kind_of_author_and_paper(reader: User, server: Zotero) -> None:
    papers = [
        factories.make_paper(10, authors=[{"name": name} for name in NAMES], doi="10.1/x"),
        factories.make_paper(11, authors=[], abstract="", categories=[]),
        factories.make_paper(12, authors=[{"name": ":"}], journal_ref="J. Foo & Bar 5 (2024) 12"),
        factories.make_paper(13, comment="This paper has been withdrawn", journal_ref="J. Foo 6"),
    ]
    assert zotero.send(zotero.Account(**ACCOUNT), "Odd", papers) == (4, 0)
    kept = list(server.objects["items"].values())
    creators = kept[0]["creators"]
    assert creators[:4] == [
        {"creatorType": "author", "firstName": "Ludwig", "lastName": "van Beethoven"},
        {"creatorType": "author", "firstName": "Ada, III", "lastName": "Cole"},
        {"creatorType": "author", "name": "The ATLAS Collaboration"},
        {"creatorType": "author", "name": "Plato"},
    ]
    assert len(creators) == 7
    assert [one["extra"] for one in kept[2:]] == ["J. Foo & Bar 5 (2024) 12", "Withdrawn. J. Foo 6"]


def test_zotero_makes_the_same_preprint_of_a_csl_file(reader: User, server: Zotero) -> None:
    paper = factories.make_paper(
        10, doi="10.1/x", journal_ref="J. Foo 5", title=r"Poincar\'e $n^2$"
    )
    zotero.send(zotero.Account(**ACCOUNT), "Odd", [paper])
    (sent,) = server.objects["items"].values()
    read = preprint_of(citations.csl(paper))
    assert read == {name: sent[name] for name in read}
    assert sent.keys() - read.keys() == {"key", "version", "tags", "creators", "collections"}


def test_many_go_by_fifty(reader: User, server: Zotero) -> None:
    papers = [factories.make_paper(number) for number in range(100, 220)]
    assert zotero.send(zotero.Account(**ACCOUNT), "Many", papers)[0] == 120
    assert server.requests.count("POST /users/1/items") == 3


def test_it_waits_as_long_as_it_is_told(server: Zotero, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=lambda: 0.0)
    monkeypatch.setattr(zotero, "time", clock)
    server.answers = [Response("slow", 429, headers={"Retry-After": "3"})]
    server.answers += [Response("down", 503, headers={"Retry-After": "2"})]
    papers = [factories.make_paper(1)]
    assert zotero.send(zotero.Account(**ACCOUNT), "One", papers)[0] == 1
    assert slept == [3, 2]
    answer = json.dumps({"successful": {}, "unchanged": {}, "failed": {}})
    server.answers = [Response(answer, headers={"Backoff": "4"})]
    zotero.send(zotero.Account(**ACCOUNT), "One", papers)
    assert slept == [3, 2, 4]
    for asked, told in (("60", 60), ("9" * 400, 3600), ("Wed, 01 Jan 2098 00:00:00 GMT", 3600)):
        server.answers = [Response("slow", 429, headers={"Retry-After": asked})]
        with pytest.raises(zotero.ZoteroError, match=f"asks you to wait {told} s"):
            zotero.send(zotero.Account(**ACCOUNT), "One", papers)


@pytest.mark.parametrize(
    ("account", "answer", "words"),
    [
        ({"library": "users/2"}, None, "key may not write to this Zotero library"),
        ({"key": "WrongWrong"}, None, "key may not write to this Zotero library"),
        ({}, Response("The target library is locked", 409), "409: The target library is locked"),
    ],
)
def test_a_refusal_is_said_in_words(
    client: Client, server: Zotero, account: dict[str, str], answer: Any, words: str
) -> None:
    client.post(ADDRESS, ACCOUNT | account)
    server.answers = [answer] if answer else []
    assert words in client.post(ADDRESS, {"send": "1"}, follow=True).content.decode()
    assert not server.objects["items"]


def test_the_key_is_kept_in_a_file_and_never_shown(
    client: Client, reader: User, server: Zotero, tmp_path: Path
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
    with pytest.raises(zotero.ZoteroError, match="could not be reached"):
        zotero.send(zotero.Account(**ACCOUNT), "One", [])

"""A profile learns from a Zotero library and stays in step with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_httpserver import HTTPServer
from werkzeug import Response

from tests import factories
from tests.digests.days import MONDAY, announce, paper, profile
from tests.servers.zotero import ZoteroLibrary
from webapp.digests.build import build
from webapp.library import zotero, zotero_reading
from webapp.library.feedback import learn, signals
from webapp.library.models import ZoteroItem, ZoteroReading

pytestmark = pytest.mark.django_db
KEY = "AbcdEfgh12345678"
ADDRESS = "/library/zotero/"
OWLS = ("Owls that hunt at night", "Owls find voles in the dark by their ears.")
SHIPS = ("Hulls of ships", "Ships with long hulls lose less to waves.")


@pytest.fixture
def library(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Any
) -> ZoteroLibrary:
    made = ZoteroLibrary(KEY)
    for path in ("items/top", "collections", "deleted"):
        httpserver.expect_request(f"/users/1/{path}").respond_with_handler(made)
    monkeypatch.setattr(zotero, "API", httpserver.url_for("").rstrip("/"))
    settings.DATA_DIR = tmp_path
    made.collect("BIRDS", "Birds")
    made.collect("NIGHT", "At night", "BIRDS")
    made.collect("SEA", "Sea")
    for number in range(3):
        title, abstract = f"{OWLS[0]} {number}", OWLS[1]
        added = f"202{number}-03-01T10:00:00Z"
        made.keep(f"OWL{number}", title=title, abstractNote=abstract, dateAdded=added,
                  collections=["NIGHT"])  # fmt: skip
    made.keep("SHIP", title=SHIPS[0], abstractNote=SHIPS[1], dateAdded="2022-01-01T00:00:00Z",
              collections=["SEA"])  # fmt: skip
    made.keep("NOTE", itemType="note", note="<p>buy seeds</p>")
    return made


@pytest.fixture
def reader() -> User:
    made: User = factories.make_reader()
    return made


@pytest.fixture
def client(reader: User, library: ZoteroLibrary) -> Client:
    made = Client()
    made.force_login(reader)
    made.post(ADDRESS, {"library": "users/1", "key": KEY})
    return made


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def weights(reader: User) -> dict[str, float]:
    return {title: weight for title, _, weight in signals(reader).zotero}


def test_a_library_that_is_read_decides_what_is_close(
    client: Client, reader: User, library: ZoteroLibrary
) -> None:
    announce(
        MONDAY,
        paper(1, "Voles and owls", abstract="Owls hunt voles at night by ear."),
        *(paper(n, f"Theorem {n}", abstract="We prove a bound on sums.") for n in range(2, 30)),
    )
    mine = profile("Mine", owner=reader, words=[], ranking="learned", size=3)
    page = text(client.post(ADDRESS, {"read": "1"}, follow=True))
    assert "Feeds that learn now use 4 papers from Zotero." in page
    assert "Learning from 4 of 4 papers, read" in page
    assert learn(reader.pk)
    build([MONDAY])
    page = text(client.get(f"/p/{mine.slug}/"))
    assert page.index("Voles and owls") < page.index("Theorem")
    assert "<cite>Owls that hunt at night" in page


def test_newer_additions_weigh_more(client: Client, reader: User, library: ZoteroLibrary) -> None:
    client.post(ADDRESS, {"read": "1"})
    found = weights(reader)
    newest, older, oldest = (found[f"{OWLS[0]} {n}"] for n in (2, 1, 0))
    assert newest == 1 > older >= oldest == zotero_reading.LEAST


def test_collections_are_included_and_left_out_with_what_is_below_them(
    client: Client, reader: User, library: ZoteroLibrary
) -> None:
    client.post(ADDRESS, {"read": "1"})
    page = text(client.post(ADDRESS, {"read": "1", "include": ["BIRDS", "NONE"]}, follow=True))
    assert "Learning from 3 of 4 papers" in page
    assert set(weights(reader)) == {f"{OWLS[0]} {n}" for n in range(3)}
    client.post(ADDRESS, {"read": "1", "exclude": ["BIRDS"]})
    assert set(weights(reader)) == {SHIPS[0]}


def test_a_reading_asks_for_what_changed_and_costs_one_request_where_nothing_did(
    client: Client, reader: User, library: ZoteroLibrary
) -> None:
    client.post(ADDRESS, {"read": "1"})
    library.requests.clear()
    assert zotero_reading.read(reader) == 0
    assert library.requests == ["GET /users/1/items/top"]
    library.keep("OWL0", title="Owls in barns")
    library.keep("OWL1", deleted=1)  # to the trash
    library.remove("SHIP")
    library.keep("NEW", title="New", archiveID="arXiv:2603.00001", dateAdded="2023-01-01T00:00:00Z")
    assert zotero_reading.read(reader) == 4
    titles = ZoteroItem.objects.values_list("title", flat=True)
    assert set(titles) == {"New", "Owls in barns", f"{OWLS[0]} 2"}
    assert zotero_reading.read(reader) == 0


def test_a_paper_of_this_site_is_known_as_it(
    client: Client, reader: User, library: ZoteroLibrary
) -> None:
    here = paper(1, "On owls")
    for number, data in enumerate(
        [
            {"archiveID": "arXiv:2603.00001"},
            {"DOI": "10.48550/arXiv.2603.00001"},
            {"url": "https://arxiv.org/abs/2603.00001v2"},
            {"extra": "arXiv: 2603.00001 [cs]"},
        ]
    ):
        library.keep(f"KNOWN{number}", title="On owls", dateAdded="2023-01-01T00:00:00Z", **data)
    client.post(ADDRESS, {"read": "1"})
    assert ZoteroItem.objects.filter(arxiv_id="2603.00001").count() == 4
    assert signals(reader).weights == {here.pk: 1.0}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Response("Forbidden", 403), "This key may not read this Zotero library."),
        (Response("Precondition failed", 412), "Zotero answered 412: Precondition failed"),
        (Response("Oops", 500), "Zotero answered 500: Oops"),
        (Response("Slow", 429, {"Retry-After": "3600"}), "Zotero asks you to wait 3600 s."),
        (Response("[]", 200, {"Backoff": "3600", "Last-Modified-Version": "99",
                              "Total-Results": "0"}), "Zotero asks you to wait 3600 s."),
    ],
)  # fmt: skip
def test_a_refusal_is_told_and_changes_nothing(
    client: Client, reader: User, library: ZoteroLibrary, answer: Response, said: str
) -> None:
    client.post(ADDRESS, {"read": "1"})
    before = list(ZoteroItem.objects.order_by("key").values())
    library.keep("OWL0", title="Changed")
    library.answers.append(answer)
    assert zotero_reading.read_all() == 0
    assert said in text(client.get(ADDRESS))
    assert list(ZoteroItem.objects.order_by("key").values()) == before
    assert zotero_reading.read_all() == 1
    assert not ZoteroReading.objects.get().error


VERSION = {"Last-Modified-Version": "99", "Total-Results": "1"}
GOOD = {"key": "K", "version": 1, "data": {"itemType": "book", "title": "T"}}
SHAPES: list[tuple[object, dict[str, str]]] = [
    ("<html>", VERSION),
    ({"items": []}, VERSION),
    ([None], VERSION),
    ([{"key": "K"}], VERSION),
    ([GOOD | {"key": "K" * 2_000}], VERSION),
    ([GOOD | {"data": [1]}], VERSION),
    ([GOOD], {}),
    ([GOOD], VERSION | {"Last-Modified-Version": "x"}),
    ([GOOD], VERSION | {"Total-Results": "-1"}),
    ([GOOD | {"data": {"title": "x" * 31 * 2**20}}], VERSION),
    ("[" * 100_000, VERSION),
]


@pytest.mark.parametrize(("body", "headers"), SHAPES, ids=range(len(SHAPES)))
def test_an_answer_of_another_shape_is_told_and_changes_nothing(
    client: Client, library: ZoteroLibrary, body: object, headers: dict[str, str]
) -> None:
    text_of = body if isinstance(body, str) else json.dumps(body)
    library.answers.append(Response(text_of, 200, headers))
    page = text(client.post(ADDRESS, {"read": "1"}, follow=True))
    assert "Zotero’s answer" in page
    assert not ZoteroItem.objects.exists()


def test_items_of_any_contents_are_read(client: Client, library: ZoteroLibrary) -> None:
    """Whoever may write to a group's library writes what they like."""
    contents: dict[str, Any] = {
        "A": {
            "title": ["a", {"b": 1}],
            "collections": {"x": 1},
            "dateAdded": "2024-13-45T99:00:00Z",
        },
        "B": {"title": "\u202eevil\x00", "abstractNote": 7, "DOI": {}, "itemType": ["x"]},
        "C": {"title": "x" * 100_000, "extra": "1." * 100_000, "dateAdded": "2024-01-01T00:00:00"},
        "D": {"title": "<math><mi>x", "collections": [None, 3, "BIRDS"], "url": "javascript:1"},
    }
    for key, data in contents.items():
        library.keep(key, **data)
    client.post(ADDRESS, {"read": "1"})
    read = {item.key: item for item in ZoteroItem.objects.filter(key__in=contents)}
    assert set(read) == set(contents)
    assert read["B"].title == "evil"
    assert len(read["C"].title) == 500
    assert read["D"].collections == ["BIRDS"]
    assert client.get(ADDRESS).status_code == 200


def test_collections_without_end_are_given_up(client: Client, library: ZoteroLibrary) -> None:
    page = [{"key": f"C{n:05}", "data": {"name": "x" * 1_000}} for n in range(100)]
    items = [GOOD]
    library.answers = [Response(json.dumps(items), 200, VERSION)]
    library.answers += [Response(json.dumps(page), 200, VERSION) for _ in range(60)]
    zotero.MOST_WAIT, before = 1e9, zotero.MOST_WAIT
    try:
        client.post(ADDRESS, {"read": "1"})
    finally:
        zotero.MOST_WAIT = before
    assert len(library.answers) == 10
    assert len(ZoteroReading.objects.get().collections) == 5_000


def test_a_server_that_is_busy_is_asked_again(
    client: Client, reader: User, library: ZoteroLibrary
) -> None:
    library.answers += [Response("Slow", 429, {"Retry-After": "0"}), Response("", 503)]
    client.post(ADDRESS, {"read": "1"})
    assert ZoteroItem.objects.count() == 4


def test_a_large_library_comes_page_by_page_even_if_it_changes_meanwhile(
    client: Client, reader: User, library: ZoteroLibrary
) -> None:
    for number in range(230):
        library.keep(f"B{number:03}", title=f"Book {number}", dateAdded="2021-01-01T00:00:00Z")
    changes = iter([1])

    def change() -> None:
        for _ in changes:
            library.keep("LATE", title="Came between", dateAdded="2024-01-01T00:00:00Z")

    library.after_page = change
    client.post(ADDRESS, {"read": "1"})
    assert ZoteroItem.objects.count() == 235
    assert zotero_reading.read(reader) == 0


def test_a_library_that_never_rests_is_told(
    client: Client, reader: User, library: ZoteroLibrary
) -> None:
    for number in range(230):
        library.keep(f"B{number:03}", title=f"Book {number}")
    library.after_page = lambda: library.keep("LATE", title="Again")
    page = text(client.post(ADDRESS, {"read": "1"}, follow=True))
    assert "Another program is changing this Zotero library" in page
    assert not ZoteroItem.objects.exists()


def test_what_was_read_goes_with_the_account(
    client: Client, reader: User, library: ZoteroLibrary
) -> None:
    client.post(ADDRESS, {"read": "1"})
    assert signals(reader).count == 4
    client.post(ADDRESS, {"forget": "1"})
    assert signals(reader).count == 0
    assert not ZoteroItem.objects.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("archiveID", "arXiv:2202.09008 [cs, stat]"),
        ("number", "arXiv:2202.09008"),
        ("reportNumber", "2202.09008v2"),
        ("callNumber", "arXiv: 2202.09008"),
        ("publicationTitle", "arXiv preprint arXiv:2202.09008"),
        ("url", "https://papers.cool/arxiv/2202.09008"),
        ("extra", "Publisher: x\narXiv:2202.09008 [cs.LG]"),
    ],
)
def test_an_identifier_is_read_wherever_zotero_has_it(name: str, value: str) -> None:
    assert zotero_reading._arxiv_id({name: value}) == "2202.09008"
    assert zotero_reading._arxiv_id({name: "10.1234/2012.12345"}) == ""

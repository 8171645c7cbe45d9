"""Several papers of a library at once: tagged, listed, taken out, exported; and a shared list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import Client

from tests import factories
from webapp.library import lists
from webapp.library.models import LibraryEntry, ReadingList, Star
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
CHOSEN = "/library/chosen/"


@pytest.fixture
def papers() -> list[Paper]:
    return [factories.make_paper(number) for number in range(1, 5)]


@pytest.fixture
def reader(client: Client, papers: list[Paper]) -> User:
    made: User = factories.make_reader()
    client.force_login(made)
    for paper in papers:
        Star.objects.create(reader=made, paper=paper)
    return made


@pytest.fixture
def other(papers: list[Paper]) -> User:
    """Another reader, who keeps the same papers under the same names."""
    made: User = factories.make_reader("eve")
    for paper in papers:
        Star.objects.create(reader=made, paper=paper)
        LibraryEntry.objects.create(reader=made, paper=paper, note="old")
    ReadingList.objects.create(reader=made, name="Wk").papers.add(*papers)
    return made


def kept(reader: User) -> tuple[object, ...]:
    entries = LibraryEntry.objects.filter(reader=reader).order_by("pk")
    lists = ReadingList.objects.filter(reader=reader).order_by("name")
    return (
        Star.objects.filter(reader=reader).count(),
        [(entry.paper_id, entry.note) for entry in entries],
        [(one.name, one.share_key, sorted(one.papers.values_list("pk"))) for one in lists],
    )


def send(client: Client, papers: list[Paper], **given: str) -> str:
    """The messages of the page that a form of the library leads to."""
    chosen = {"chosen": [paper.arxiv_id for paper in papers], "next": "/library/"}
    page = client.post(CHOSEN, {**chosen, **given}, follow=True).content.decode()
    return " ".join(re.findall(r'class="message[^>]*>\s*(.*?)\s*<', page, re.DOTALL))


def test_chosen_papers_are_listed_and_taken_out(
    client: Client, reader: User, other: User, papers: list[Paper]
) -> None:
    before = kept(other)
    assert "2 papers are on “Wk”" in send(client, papers[1:3], do="list", name=" Wk ")
    listed = ReadingList.objects.get(reader=reader)
    assert sorted(listed.papers.values_list("pk", flat=True)) == [one.pk for one in papers[1:3]]
    send(client, papers[1:2], do="list", name="Wk")  # there already: once
    assert listed.papers.count() == 2

    send(client, papers[1:2], do="remove", list=str(listed.pk), show="saved")
    assert [one.pk for one in listed.papers.all()] == [papers[2].pk]
    assert Star.objects.filter(reader=reader).count() == 4  # of the list alone
    send(client, papers[:3], do="remove", show="saved")
    assert [one.paper_id for one in Star.objects.filter(reader=reader)] == [papers[3].pk]
    assert kept(other) == before


@pytest.mark.parametrize(
    "case",
    [
        ({"do": "list", "name": ""}, "Write the name of a list"),
        ({"do": "list", "name": "x" * 81}, "at most 80"),
        ({"do": "list", "name": "Third"}, "limit is 1 lists"),
        ({"do": "remove", "show": "notes"}, "To delete a note, open its paper"),
        ({"do": "burn"}, "no such action"),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    client: Client, reader: User, papers: list[Paper], case: tuple[dict[str, str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    given, why = case
    monkeypatch.setattr(lists, "MAX_LISTS", 1)
    ReadingList.objects.create(reader=reader, name="Wk")
    LibraryEntry.objects.create(reader=reader, paper=papers[1], note="n")
    before = kept(reader)
    said = send(client, papers, **given)
    assert why in said
    assert "Nothing was changed." in said
    assert kept(reader) == before


def test_nothing_chosen_unknown_or_of_nobody(client: Client, papers: list[Paper]) -> None:
    assert client.post(CHOSEN, {"chosen": "2603.00001", "do": "list"}).status_code == 302
    assert "/sign-in/" in client.post(CHOSEN, {"do": "list"})["Location"]
    client.force_login(factories.make_reader())
    assert "Select papers first" in send(client, [], do="list", name="x")
    page = client.post(CHOSEN, {"chosen": ["9999.99999", "'; --"], "export": "bib"}, follow=True)
    assert "Select papers first" in page.content.decode()
    assert client.get(CHOSEN).status_code == 405


def test_the_chosen_are_exported_in_the_order_of_the_page(
    client: Client, reader: User, papers: list[Paper]
) -> None:
    chosen = [papers[2].arxiv_id, papers[0].arxiv_id]
    answer = client.post(CHOSEN, {"chosen": chosen, "export": "csl.json"})
    assert "attachment" in answer["Content-Disposition"]
    assert [chosen[0] in str(one) for one in json.loads(answer.content)] == [True, False]
    assert len(json.loads(answer.content)) == 2
    assert b"@misc" in client.post(CHOSEN, {"chosen": chosen, "export": "bib"}).content


def test_no_two_lists_are_shared_at_one_address() -> None:
    ada = factories.make_reader("ada")
    for name in ("private", "too"):
        ReadingList.objects.create(reader=ada, name=name)
    ReadingList.objects.create(reader=ada, name="one", share_key="k" * 22)
    with pytest.raises(IntegrityError), transaction.atomic():
        ReadingList.objects.create(reader=ada, name="other", share_key="k" * 22)


def test_a_shared_list_is_read_by_whoever_has_its_address_until_it_is_withdrawn(
    client: Client, reader: User, papers: list[Paper]
) -> None:
    mine = ReadingList.objects.create(reader=reader, name="Wk")
    mine.papers.add(papers[0])
    LibraryEntry.objects.create(reader=reader, paper=papers[0], note="secret note")
    change, stranger = f"/library/lists/{mine.pk}/", Client()
    client.post(change, {"do": "share"})
    mine.refresh_from_db()
    first = mine.share_key
    assert len(first) >= 22  # 128 random bits
    address = f"/lists/{first}/"
    assert address in client.get(f"/library/?list={mine.pk}").content.decode()

    page = stranger.get(address)
    body = page.content.decode()
    assert papers[0].arxiv_id in body
    assert not [text for text in ("secret note", reader.username, change) if text in body]
    assert "noindex" in page["X-Robots-Tag"]
    assert "private" in page["Cache-Control"]
    assert stranger.post(address).status_code == 405
    for suffix in ("rss", "atom", "json"):
        feed = stranger.get(f"/lists/{first}.{suffix}")
        assert "noindex" in feed["X-Robots-Tag"]
        assert papers[0].arxiv_id in feed.content.decode()
    assert "Access-Control-Allow-Origin" not in feed
    mine.papers.add(papers[1])
    assert papers[1].arxiv_id in stranger.get(f"/lists/{first}.json").content.decode()

    client.post(change, {"do": "rename", "name": "  Kernels   to read "})
    assert "Kernels to read" in stranger.get(address).content.decode()
    client.post(change, {"do": "share"})  # a new address: the old one is gone
    mine.refresh_from_db()
    assert mine.share_key != first
    for gone in (address, f"/lists/{first}.rss"):
        assert stranger.get(gone).status_code == 404
    client.post(change, {"do": "withdraw"})
    for gone in (f"/lists/{mine.share_key}/", f"/lists/{mine.share_key}.json"):
        assert stranger.get(gone).status_code == 404


def test_only_its_owner_changes_a_list(client: Client, reader: User, other: User) -> None:
    theirs = ReadingList.objects.get(reader=other)
    before = kept(other)
    for do in ("share", "withdraw", "rename", "delete"):
        sent = {"do": do, "name": "Mine now"}
        assert client.post(f"/library/lists/{theirs.pk}/", sent).status_code == 404
    assert kept(other) == before
    mine = ReadingList.objects.create(reader=reader, name="A")
    ReadingList.objects.create(reader=reader, name="B")
    for name in ("B", "", "x" * 81):
        client.post(f"/library/lists/{mine.pk}/", {"do": "rename", "name": name})
        mine.refresh_from_db()
        assert mine.name == "A"
    assert Client().get("/lists//").status_code == 404  # lists that are not shared have no address


@pytest.mark.parametrize(
    ("this", "meanwhile", "name", "is_shared", "said"),
    [
        (
            {"do": "rename", "name": "A"},
            {"do": "rename", "name": "B"},
            "A",
            False,
            "now called “A”",
        ),
        (
            {"do": "rename", "name": "A"},
            {"do": "rename", "name": "A"},
            "A",
            False,
            "now called “A”",
        ),
        ({"do": "rename", "name": "A"}, {"do": "share"}, "A", True, "now called “A”"),
        ({"do": "share"}, {"do": "rename", "name": "B"}, "B", True, "Anyone with the address"),
        ({"do": "withdraw"}, {"do": "rename", "name": "B"}, "B", False, "is private again"),
    ],
)
def test_two_windows_change_one_list_at_once(
    client: Client,
    reader: User,
    *,
    this: dict[str, str],
    meanwhile: dict[str, str],
    name: str,
    is_shared: bool,
    said: str,
) -> None:
    mine = ReadingList.objects.create(reader=reader, name="To read")
    change = f"/library/lists/{mine.pk}/"
    with another_window(client, change, meanwhile):
        answer = client.post(change, this, follow=True)
    assert said in answer.content.decode()
    mine.refresh_from_db()
    assert (mine.name, bool(mine.share_key)) == (name, is_shared)


def test_a_name_that_another_window_gives_meanwhile_is_refused(
    client: Client, reader: User
) -> None:
    mine, second = (ReadingList.objects.create(reader=reader, name=name) for name in "XY")
    change = f"/library/lists/{mine.pk}/"
    with another_window(client, f"/library/lists/{second.pk}/", {"do": "rename", "name": "A"}):
        answer = client.post(change, {"do": "rename", "name": "A"}, follow=True)
    assert "You have a list “A” already." in answer.content.decode()
    assert [*ReadingList.objects.values_list("name", flat=True)] == ["A", "X"]


@pytest.mark.parametrize("do", ["rename", "share", "withdraw", "delete"])
def test_a_list_that_another_window_deletes_meanwhile_is_not_found(
    client: Client, reader: User, do: str
) -> None:
    mine = ReadingList.objects.create(reader=reader, name="To read")
    change = f"/library/lists/{mine.pk}/"
    with another_window(client, change, {"do": "delete"}):
        answer = client.post(change, {"do": do, "name": "A"})
    assert answer.status_code == (302 if do == "delete" else 404)
    assert not ReadingList.objects.exists()


@contextmanager
def another_window(client: Client, address: str, sent: dict[str, str]) -> Iterator[None]:
    """Sends a form of the same reader as soon as a request has read one of their lists."""
    has_sent = False

    def watch(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal has_sent
        result = execute(sql, *rest)
        if not has_sent and sql.startswith("SELECT") and "library_readinglist" in sql:
            has_sent = True
            other = Client()
            other.cookies = client.cookies
            assert other.post(address, sent).status_code == 302
        return result

    with connection.execute_wrapper(watch):
        yield
    assert has_sent

"""One reader with two windows: what a stale one sends loses nothing, and no form ends in an error.

A window is a page as it was opened: it sends the fields that its forms had then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from lxml import html

from tests import factories
from tests.readers.test_at_once import at_once, both_wait, post
from tests.runs import saying
from webapp.api import tokens
from webapp.digests.models import Profile
from webapp.digests.profiles import validation
from webapp.library.models import LibraryEntry, ReadingList, Star

pytestmark = pytest.mark.django_db


class Window:
    """A page as it was opened."""

    def __init__(self, client: Client, address: str) -> None:
        self.client, self.address = client, address
        response = client.get(address)
        assert response.status_code == 200, address
        self.page = html.fromstring(response.content.decode())

    def forms(self) -> Iterator[Any]:
        return (form for form in self.page.forms if form.method == "POST")

    def send(self, form: Any, button: tuple[str, str] | None = None, **changed: Any) -> Any:
        """Submit a form as it was filled in when the window was opened, with something changed."""
        sent: dict[str, Any] = {}
        for name, value in form.form_values():
            sent.setdefault(name, []).append(value)
        sent |= dict([button]) if button else {}
        return self.client.post(form.action or self.address, sent | changed)

    def form_with(self, field: str) -> Any:
        return next(form for form in self.forms() if field in form.fields)


@pytest.fixture
def reader(client: Client) -> User:
    reader: User = factories.make_reader("ada")
    client.force_login(reader)
    return reader


SAVE = ("save", "1")


def test_a_stale_window_does_not_undo_a_change_of_a_feed(client: Client, reader: User) -> None:
    feed = factories.make_profile("mine", owner=reader, name="Mine")
    first, second = (Window(client, "/feeds/mine/") for _ in range(2))
    keywords = "sparse attention\nkernels"
    assert first.send(first.form_with("keywords"), SAVE, keywords=keywords).status_code == 302
    answer = second.send(second.form_with("keywords"), SAVE, name="Renamed")
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "changed in another window" in page
    assert 'value="Renamed"' in page
    feed.refresh_from_db()
    assert (feed.name, [one["keyword"] for one in feed.keywords]) == ("Mine", keywords.split("\n"))
    second.page = html.fromstring(page)  # and sent again, as the page says
    assert second.send(second.form_with("keywords"), SAVE).status_code == 302
    feed.refresh_from_db()
    assert feed.name == "Renamed"


def test_a_window_that_is_not_stale_saves_after_work_behind_the_page(
    client: Client, reader: User
) -> None:
    """The count of a keyword's papers is renewed by a task: that is no other window."""
    feed = factories.make_profile("mine", owner=reader, name="Mine")
    window = Window(client, "/feeds/mine/")
    feed.keywords = [{**keyword, "frequency": 7} for keyword in feed.keywords]
    feed.save()
    assert window.send(window.form_with("keywords"), SAVE, name="New").status_code == 302


def test_a_feed_that_another_window_deleted_is_not_found(client: Client, reader: User) -> None:
    factories.make_profile("mine", owner=reader)
    first, second = (Window(client, "/feeds/mine/") for _ in range(2))
    first.send(first.form_with("keywords"), ("delete", "1"))
    assert second.send(second.form_with("keywords"), SAVE).status_code == 404
    assert not Profile.objects.filter(slug="mine").exists()


@pytest.mark.django_db(transaction=True)
def test_two_windows_that_name_a_new_feed_alike_make_two(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = factories.make_reader("ada")
    both_wait(monkeypatch, validation, "free_slug")
    forms = [{**_new_feed(), "keywords": word, "save": "1"} for word in ("kernels", "pruning")]
    assert at_once(*(post(reader, "/feeds/new/", sent) for sent in forms)) == [302, 302]
    assert Profile.objects.filter(owner=reader).count() == 2


def _new_feed() -> dict[str, Any]:
    return {
        "name": "Alike", "keywords": "kernels", "categories": "cs.LG", "announce_types": ["new"],
        "matching": "rarity", "min_score": "0", "size": "30", "language": "en",
    }  # fmt: skip


def test_a_note_of_two_windows_keeps_both(client: Client, reader: User) -> None:
    paper = factories.make_paper(1)
    lists = [ReadingList.objects.create(reader=reader, name=name) for name in ("a", "b")]
    address = f"/papers/{paper.arxiv_id}/"
    first, second, third = (Window(client, address) for _ in range(3))
    client.post(f"/library/papers/{paper.arxiv_id}/", {"read": "1"})  # no change of the note
    mine = {"note": "from one", "lists": [lists[0].pk]}
    first.send(first.form_with("note"), **mine)
    second.send(second.form_with("note"), note="from two", lists=[lists[1].pk])
    entry = LibraryEntry.objects.get(reader=reader)
    assert entry.note == "from one\n\nfrom two"
    assert all(paper in listed.papers.all() for listed in lists)
    assert "Both versions are kept" in client.get(address).content.decode()
    third.send(third.form_with("note"), **mine)  # what was sent before is not repeated
    entry.refresh_from_db()
    assert entry.note == "from one\n\nfrom two"


def test_a_note_may_be_shortened_in_the_only_window(client: Client, reader: User) -> None:
    paper = factories.make_paper(1)
    listed = ReadingList.objects.create(reader=reader, name="a")
    listed.papers.add(paper)
    LibraryEntry.objects.create(reader=reader, paper=paper, note="long text")
    window = Window(client, f"/papers/{paper.arxiv_id}/")
    window.send(window.form_with("note"), note="text", lists=[])
    entry = LibraryEntry.objects.get(reader=reader)
    assert (entry.note, listed.papers.count()) == ("text", 0)


PAGES = (
    "/account/", "/account/mail/", "/account/tokens/", "/account/readers/", "/connections/",
    "/corrections/", "/feeds/", "/feeds/new/", "/feeds/mine/", "/library/", "/library/import/",
    "/library/zotero/", "/library/?list={list}", "/papers/{paper}/", "/runs/{run}/", "/workers/",
    "/intake/", "/methods/seps/", "/",
)  # fmt: skip


@pytest.mark.parametrize("address", PAGES)
def test_no_form_ends_in_an_error_when_a_second_window_sends_it_too(
    client: Client, address: str
) -> None:
    """Each button of each form, as an administrator, who has all of them."""
    reader = User.objects.create_superuser("ada")
    factories.make_day(3)
    paper = "2603.00001"
    factories.make_profile("mine", owner=reader)
    Star.objects.create(reader=reader, paper_id=_paper_key(paper))
    listed = ReadingList.objects.create(reader=reader, name="Wk", share_key="k")
    run = saying.queued(reader)
    tokens.make(reader, "program", ["library"])
    address = address.format(list=listed.pk, paper=paper, run=run.pk)
    client.force_login(reader)
    first, second = (Window(client, address) for _ in range(2))
    sent = 0
    for one, other in zip(first.forms(), second.forms(), strict=True):
        if "/sign-out" in (one.action or "") or "delete" in one.fields:  # ends the session
            continue
        for button in one.xpath(".//button[@name]") or [None]:
            pressed = None if button is None else (button.get("name"), button.get("value", ""))
            for window, form in ((first, one), (second, other)):
                client.force_login(reader)
                assert window.send(form, pressed).status_code < 500, (form.action, pressed)
                sent += 1
    assert sent or address in {"/corrections/", "/feeds/"}


def _paper_key(identifier: str) -> int:
    from webapp.papers.models import Paper

    return Paper.objects.get(arxiv_id=identifier).pk


def test_a_form_of_before_a_sign_in_says_what_to_do() -> None:
    """Signing in renews the token of forms: a window that is older is told to reload."""
    client = Client(enforce_csrf_checks=True)
    reader = factories.make_reader("ada")
    client.force_login(reader)
    factories.make_profile("mine", owner=reader)
    window = Window(client, "/feeds/mine/")
    client.cookies["csrftoken"] = "x" * 32
    for name in list(client.cookies):
        if "csrf" in name:
            client.cookies[name] = "y" * 32
    answer = window.send(window.form_with("keywords"), SAVE)
    assert answer.status_code == 403
    assert "reload" in answer.content.decode().lower()

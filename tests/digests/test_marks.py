"""Saving and "not for me" are states that a form asks for, however often and by however many."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from tests import factories
from webapp.library.models import LibraryEntry, Star
from webapp.papers.models import Paper

JSON = {"accept": "application/json"}


@pytest.fixture
def reader() -> User:
    made: User = factories.make_reader()
    return made


@pytest.fixture
def paper() -> Paper:
    return factories.make_paper(1)


def signed_in(reader: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(reader)
    return client


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "name"), [("/star/", "starred"), ("/library/leave/", "left")])
def test_a_form_sent_twice_does_not_undo_itself(
    reader: User, paper: Paper, path: str, name: str
) -> None:
    client = signed_in(reader)
    for field, state in (("paper", True), ("clear", False)):
        for _ in range(2):
            answer = client.post(path, {field: paper.arxiv_id}, headers=JSON)
            assert answer.json() == {name: state}
        kept = Star.objects.exists() if name == "starred" else LibraryEntry.objects.get().not_for_me
        assert kept is state


@pytest.mark.django_db
def test_read_is_a_state_too(reader: User, paper: Paper) -> None:
    client = signed_in(reader)
    address = f"/library/papers/{paper.arxiv_id}/"
    for value, state in (("1", True), ("1", True), ("0", False), ("0", False)):
        client.post(address, {"read": value})
        assert (LibraryEntry.objects.get().read_at is not None) is state


@pytest.mark.django_db
def test_each_button_asks_for_the_state_that_it_is_not_in(reader: User, paper: Paper) -> None:
    client = signed_in(reader)
    address = f"/papers/{paper.arxiv_id}/"

    def asked(kind: str) -> str:
        page = client.get(address).content.decode()
        (name,) = re.findall(rf'<button form="stars"[^>]*?name="(\w+)"[^>]*?class="{kind}"', page)
        return str(name)

    assert (asked("star"), asked("leave")) == ("paper", "paper")
    client.post("/star/", {asked("star"): paper.arxiv_id})
    assert (asked("star"), asked("leave")) == ("clear", "paper")
    client.post("/library/leave/", {asked("leave"): paper.arxiv_id})
    assert (asked("star"), asked("leave")) == ("paper", "clear")
    page = client.get(address).content.decode()
    assert re.search(r'name="read"\s+value="1"', page)
    client.post(f"/library{address}", {"read": "1"})
    assert re.search(r'name="read"\s+value="0"', client.get(address).content.decode())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/star/", "/library/leave/"])
def test_many_at_once_end_in_the_state_that_all_asked_for(
    reader: User, paper: Paper, path: str
) -> None:
    clients = [signed_in(reader) for _ in range(8)]

    def send(client: Client) -> int:
        try:
            return int(client.post(path, {"paper": paper.arxiv_id}, headers=JSON).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert set(pool.map(send, clients)) == {200}
            assert Star.objects.count() == (path == "/star/")

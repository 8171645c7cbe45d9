"""A reader's own fields and OR in every search, and the search of a library: pages, API, feeds."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests import factories
from webapp.api import tokens
from webapp.library.models import LibraryEntry, ReadingList, Star
from webapp.mail.deliver import _search_results
from webapp.mail.models import Delivery
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
Finder = Callable[[str], list[int]]

PAPERS = {
    1: ("Token pruning for images", "We prune tokens."),
    2: ("Token merging for images", "We merge tokens."),
    3: ("Kernels for attention", "Blocks of keys."),
    4: ("Attention kernels for pruning", "Blocks again."),
}


@pytest.fixture
def reader(client: Client) -> User:
    """A reader who saved 1, 2 and 3, read 2, noted 3, tagged 3 and 4, and listed 1 and 4."""
    made: User = factories.make_reader()
    papers = {
        number: factories.make_paper(number, title=title, abstract=abstract)
        for number, (title, abstract) in PAPERS.items()
    }
    for number in (1, 2, 3):
        Star.objects.create(reader=made, paper=papers[number])
    entry = LibraryEntry.objects.create
    entry(reader=made, paper=papers[2], read_at="2026-03-12T00:00Z")
    entry(reader=made, paper=papers[3], note="Try **this idea** at home")
    entry(reader=made, paper=papers[4], not_for_me=True)
    ReadingList.objects.create(reader=made, name="To cite").papers.set([papers[1], papers[4]])
    ReadingList.objects.create(reader=made, name="Kernels").papers.set([papers[3], papers[4]])
    other = factories.make_reader("another")
    ReadingList.objects.create(reader=other, name="kernels").papers.set([papers[1]])
    Star.objects.create(reader=other, paper=papers[4])
    entry(reader=other, paper=papers[1], note="this idea")
    client.force_login(made)
    return made


def on_page(client: Client, address: str, **query: object) -> list[int]:
    page = client.get(address, query).content.decode()
    return [int(number) for number in re.findall(r'id="p-2603\.0000(\d)"', page)]


def told(client: Client, address: str, **query: object) -> str:
    """The sentence by which a page refuses."""
    page = client.get(address, query).content.decode()
    found = re.search(r'role="alert">(.*?)</p>', page)
    return found[1] if found else ""


@pytest.fixture(params=["page", "API"])
def find(request: pytest.FixtureRequest, client: Client, reader: User) -> Finder:
    """The matches of a search, in ascending order."""
    key = tokens.make(reader, "mine", ["library"])

    def ask(q: str) -> list[int]:
        if request.param == "page":
            return sorted(on_page(client, "/search", q=q))
        answer = Client().get(
            "/api/v1/papers", {"q": q}, headers={"Authorization": f"Bearer {key}"}
        )
        assert answer.status_code == 200, answer.content
        return sorted(int(one["id"][-1]) for one in answer.json()["items"])

    return ask


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("is:saved", [1, 2, 3]),
        ("is:unread", [1, 3]),
        ("is:read", [2]),
        ("is:noted", [3]),
        ("is:left", [4]),
        ("-is:saved kernels", [4]),
        ("-is:read is:saved", [1, 3]),
        ("list:kernels", [3, 4]),
        ("list:kernels is:saved", [3]),
        ("list:none", []),
        ('list:"to cite"', [1, 4]),
        ('list:"to cite" pruning -kernels', [1]),
        ("note:idea", [3]),
        ('note:"this idea"', [3]),
        ('note:"idea this"', []),
        ("is:read OR is:noted", [2, 3]),
        ("is:read OR list:kernels kernels", [3, 4]),
        ("pruning OR merging", [1, 2, 4]),
        ("pruning OR merging -kernels", [1, 2]),
        ("pruning OR merging OR blocks", [1, 2, 3, 4]),
        ('"token pruning" OR "token merging"', [1, 2]),
        ("prun* OR merg* images", [1, 2]),
        ("ti:merging OR ti:kernels", [2, 3, 4]),
        ("attention pruning OR merging", [4]),
        ("OR pruning", [1, 4]),
        ("is:SAVED", [1, 2, 3]),
    ],
)
def test_fields_and_alternatives_join_with_words(find: Finder, q: str, expected: list[int]) -> None:
    assert find(q) == expected


REFUSED = {
    "is:new": "is:new",
    "foo:bar": "foo:",
    "mechanism:moba": "mechanism:",
    "has:code": "has:measured",
    "pruning OR -merging": "OR joins",
    "ti:pruning OR au:tanaka": "OR joins",
    "is:saved OR pruning": "OR joins",
    "pruning OR year:2026": "OR joins",
}


@pytest.mark.parametrize(("q", "named"), REFUSED.items())
def test_what_a_search_lacks_is_refused_by_name(
    client: Client, reader: User, q: str, named: str
) -> None:
    assert named in told(client, "/search", q=q)
    assert named in told(client, "/library/", q=q)
    assert on_page(client, "/search", q=q) == []
    headers = {"Authorization": f"Bearer {tokens.make(reader, 'mine', ['library'])}"}
    answer = client.get("/api/v1/papers", {"q": q}, headers=headers)
    assert (answer.status_code, named in answer.json()["detail"]) == (400, True)
    assert client.get("/search.rss", {"q": q}).status_code == 404


@pytest.mark.parametrize("q", ["is:saved", "list:kernels", "note:idea", "-is:saved idea"])
def test_the_anonymous_get_one_sentence(reader: User, q: str) -> None:
    client, field = Client(), q.strip("-").split(":")[0]
    assert told(client, "/search", q=q) == f"“{field}:” searches your own library: sign in first."
    answer = client.get("/api/v1/papers", {"q": q})
    assert (answer.status_code, "sign in" in answer.json()["detail"]) == (400, True)


def test_a_token_without_the_scope_reads_no_library(reader: User) -> None:
    key = tokens.make(reader, "mine", ["runs"])
    headers = {"Authorization": f"Bearer {key}"}
    assert Client().get("/api/v1/papers", {"q": "is:saved"}, headers=headers).status_code == 400


@pytest.mark.parametrize(
    "q",
    ["see https://arxiv.org/abs/2603.1", "std::vector", "arXiv:2603.00001", "WhAI:Probing minds"],
)
def test_a_colon_in_an_address_or_a_name_is_no_field(client: Client, reader: User, q: str) -> None:
    assert told(client, "/search", q=q) == ""


def test_a_library_is_searched_and_sorted_without_scripts(client: Client, reader: User) -> None:
    def shown(**query: Any) -> list[int]:
        return on_page(client, "/library/", **query)

    assert shown(show="saved") == [3, 2, 1]
    assert shown() == [3, 2, 1, 4]  # with what was noted and not saved
    assert shown(show="saved", sort="title") == [3, 2, 1]
    assert sorted(shown(q="token", show="saved")) == [1, 2]
    assert shown(q="token", show="saved", sort="title") == [2, 1]
    assert shown(q="images merging OR pruning", show="saved", sort="added") == [2, 1]
    assert shown(q="kernels", show="saved") == [3]  # the fourth is not saved
    assert shown(q="is:unread token", show="saved") == [1]
    kernels = ReadingList.objects.get(reader=reader, name="Kernels")
    assert shown(q="pruning", list=kernels.pk) == [4]
    assert shown(q="2603.00001", show="saved") == [1]
    assert shown(q="2603.00004", show="saved") == []
    page = client.get("/library/", {"q": "lantern", "list": kernels.pk}).content.decode()
    assert "None of these papers has all of these words." in page
    assert f'name="list" value="{kernels.pk}"' in page


def test_titles_and_days_order_a_library(client: Client) -> None:
    made = factories.make_reader()
    for number, title, day in ((1, "b", 3), (2, "A", 1), (3, "c", 2)):
        paper = factories.make_paper(number, title=title)
        Paper.objects.filter(pk=paper.pk).update(announced_on=date(2026, 3, day))
        Star.objects.create(reader=made, paper=paper)
    client.force_login(made)
    assert on_page(client, "/library/", sort="title") == [2, 1, 3]
    assert on_page(client, "/library/", sort="announced") == [1, 3, 2]
    assert on_page(client, "/library/", sort="added") == [3, 2, 1]
    assert on_page(client, "/library/", sort="nonsense") == [3, 2, 1]


def test_pages_keep_the_search(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.pages.library.PAPERS_A_PAGE", 2)
    made = factories.make_reader()
    for number in range(1, 6):
        paper = factories.make_paper(number, title=f"Kernels {number}")
        Star.objects.create(reader=made, paper=paper)
    client.force_login(made)
    page = client.get("/library/", {"q": "kernels", "sort": "title"}).content.decode()
    assert 'href="?q=kernels&amp;sort=title&amp;page=2"' in page
    assert on_page(client, "/library/", q="kernels", sort="title", page=2) == [3, 4]


def test_the_api_searches_and_sorts_a_library(reader: User) -> None:
    key = tokens.make(reader, "mine", ["library"])
    headers = {"Authorization": f"Bearer {key}"}

    def ids(**query: str) -> list[int]:
        answer = Client().get("/api/v1/library", query, headers=headers)
        assert answer.status_code == 200, answer.content
        return [int(one["paper"]["id"][-1]) for one in answer.json()["items"]]

    assert ids(q="token", sort="title") == [2, 1]
    assert ids(q="is:unread") == [3, 1]
    refused = Client().get("/api/v1/library", {"q": "is:new"}, headers=headers)
    assert refused.status_code == 400


def test_a_profile_of_a_search_takes_alternatives_as_synonyms(client: Client, reader: User) -> None:
    page = client.get("/feeds/new", {"q": "pruning OR merging list:kernels"}, follow=True)
    text = page.content.decode()
    assert "pruning | merging" in text
    assert "list:kernels" in text


def test_a_mailed_search_is_its_readers_own(reader: User) -> None:
    Paper.objects.update(announced_on=date(2026, 3, 2))
    delivery = Delivery(reader=reader, q="list:kernels is:saved")
    papers = _search_results(delivery, date(2026, 3, 1), date(2026, 3, 3))
    assert [paper.arxiv_id for paper in papers] == ["2603.00003"]

"""Preferences of a reader who saved nothing yet: own papers, and choices among ten."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests import factories
from tests.digests.days import MONDAY, WEDNESDAY, announce, paper
from tests.servers.arxiv import ArxivServer
from webapp.core import tasks
from webapp.digests.models import Profile
from webapp.library import importing
from webapp.library.models import Star
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
ADDRESS = "/first-steps/"
TOPICS = ("owls hunting voles", "ships with long hulls", "proofs about sums", "maps of rivers")


@pytest.fixture
def client() -> Client:
    made = Client()
    made.force_login(factories.make_reader())
    return made


def day() -> None:
    names = [{"name": "Ada Lindqvist", "affiliation": ""}], [{"name": "A. Lind", "affiliation": ""}]
    for number in range(1, 41):
        topic = TOPICS[number % 4]
        made = paper(number, f"On {topic} {number}", abstract=f"We study {topic}.",
                     authors=names[number % 4 != 0], announced_on=MONDAY)  # fmt: skip
        announce(MONDAY, made)


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_ten_papers_are_offered_and_what_is_chosen_decides_the_list(client: Client) -> None:
    day()
    page = client.get(ADDRESS).content.decode()
    keys = re.findall(r'name="chosen" value="(\d+)"', page)
    assert len(keys) == 10
    shown = text(client.get(ADDRESS))
    assert all(f"On {topic}" in shown for topic in TOPICS)  # different ones
    labels = dict(re.findall(r'value="(\d+)"[^>]*>\s*<span>On (\w+)', page))
    liked = [key for key in keys if labels[key] in {"owls", "ships"}]
    asked = {"categories": "cs.CL", "chosen": liked}
    preview = text(client.post(ADDRESS, asked | {"preview": "1"}))
    assert f"Learned from {len(liked)} papers." in preview
    made = client.post(ADDRESS, asked)["Location"]
    assert Star.objects.count() == len(liked)
    first = re.findall(r"<h2>\s*<a[^>]*>\s*On (\w+)", client.get(made).content.decode())
    assert set(first[:8]) <= {"owls", "ships"}


def test_an_authors_papers_count_as_liked_and_arxiv_is_asked_for_who_is_missing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, list[Any]]] = []

    def send(name: str, args: list[Any], **_: object) -> bool:
        sent.append((name, args))
        return True

    monkeypatch.setattr(tasks, "send", send)
    day()
    asked = {"categories": "cs.CL", "interests": "Ada Lindqvist"}
    assert "Learned from 10 papers." in text(client.post(ADDRESS, asked | {"preview": "1"}))
    assert not Star.objects.exists()
    client.post(ADDRESS, asked)
    assert Star.objects.count() == 10
    reader = User.objects.get()
    assert sent == []
    client.post(ADDRESS, {"categories": "cs.CL", "interests": "On owls hunting voles 4\nQ. Nobody"})
    assert ("site.save_by", [reader.pk, "Q. Nobody"]) in sent
    assert "2603.99991" not in str(sent)


def test_papers_by_a_name_come_from_arxiv_and_are_saved_once(settings: Any) -> None:
    reader = factories.make_reader()
    with ArxivServer(today=WEDNESDAY) as arxiv:
        settings.ARXIV_API_URL, settings.ARXIV_SECONDS = arxiv.api_url, 0
        known = list(arxiv.corpus.latest())
        name = known[0].authors[0][0]
        theirs = {one.arxiv_id for one in known if name in [who for who, _ in one.authors]}
        assert 0 < len(theirs) < len(known)
        assert [importing.save_by(reader.pk, name) for _ in range(2)] == [len(theirs)] * 2
        assert importing.save_by(reader.pk, "Nobody Nowhere") == 0
    assert {star.paper.arxiv_id for star in Star.objects.filter(reader=reader)} == theirs


@pytest.mark.parametrize("saved", [0, 1, 2])
def test_papers_saved_before_need_not_be_named_again(client: Client, saved: int) -> None:
    day()
    reader = User.objects.get()
    for paper_on_owls in Paper.objects.filter(title__contains="owls")[:saved]:
        Star.objects.create(reader=reader, paper=paper_on_owls)
    asked = {"categories": "cs.CL"}
    assert ("The feed also learns from the" in text(client.get(ADDRESS))) == (saved > 0)
    answer = client.post(ADDRESS, asked)
    assert answer.status_code == (302 if saved else 422)
    if saved:
        first = re.findall(r"<h2>\s*<a[^>]*>\s*On (\w+)", text(client.get(answer["Location"])))
        assert set(first[: 10 - saved]) == {"owls"}


def test_nothing_at_all_is_refused_in_words(client: Client) -> None:
    answer = client.post(ADDRESS, {"categories": "cs.CL"})
    assert answer.status_code == 422
    assert "Write what you follow, or pick papers below." in text(answer)
    assert not Profile.objects.exists()


def test_a_feed_has_the_categories_and_exclusions_that_were_pasted(client: Client) -> None:
    day()
    refused = client.post(ADDRESS, {"categories": "cs.CL", "interests": "quant-ph"})
    assert refused.status_code == 422
    assert "A category alone ranks no paper." in text(refused)
    client.post(ADDRESS, {"categories": "cs.CL", "interests": "owls, not voles, quant-ph"})
    feed = Profile.objects.get(owner=User.objects.get())
    assert (feed.categories, feed.exclude) == (["cs.CL", "quant-ph"], ["voles"])
    page = text(client.get(f"/p/{feed.slug}/"))
    assert "On owls" not in page  # each of them is hunting voles


@pytest.mark.parametrize("title", ["Owls", "Owls at night"])
def test_an_export_says_that_it_learns_from_titles(client: Client, title: str) -> None:
    exported = f"@misc{{x, title={{{title}}}, eprint={{2603.99991}}}}"
    asked = {"categories": "cs.CL", "interests": exported, "preview": "1"}
    page = text(client.post(ADDRESS, asked))
    assert "1 title of a paper that is not here, to learn from" in page
    assert "no paper" not in page.lower().replace("no paper matches", "")


@pytest.mark.parametrize("text_pasted", ["!!!", "a*", "@misc{x, title={}}"])
def test_nothing_empty_is_created_of_what_cannot_be_used(client: Client, text_pasted: str) -> None:
    day()
    for extra in ({}, {"preview": "1"}):
        answer = client.post(ADDRESS, {"categories": "cs.CL", "interests": text_pasted} | extra)
        assert answer.status_code == 422
        assert "Nothing in this could be used." in text(answer)
    assert not Profile.objects.exists()


def test_homonyms_are_ticked_until_they_are_not(client: Client) -> None:
    day()
    for number, name in ((51, "Zoe Zhang"), (52, "Zheng Zhang")):
        made = paper(number, f"On lamps {number}", authors=[{"name": name, "affiliation": ""}])
        announce(MONDAY, made)
    asked = {"categories": "cs.CL", "interests": "Z. Zhang"}
    page = client.post(ADDRESS, asked | {"preview": "1"}).content.decode()
    assert re.findall(r'name="author"\s+value="([^"]*)"\s+checked', page) == [
        "Zheng Zhang",
        "Zoe Zhang",
    ]
    unticked = asked | {"shown_author": ["Zoe Zhang", "Zheng Zhang"], "author": ["Zoe Zhang"]}
    page = client.post(ADDRESS, unticked | {"preview": "1"}).content.decode()
    assert re.findall(r'name="author"\s+value="([^"]*)"\s+checked', page) == ["Zoe Zhang"]
    client.post(ADDRESS, unticked)
    assert [word["keyword"] for word in Profile.objects.get().keywords] == ["author:Zoe Zhang"]
    first = client.get(f"/p/{Profile.objects.get().slug}/").content.decode()
    assert 'id="p-2603.00051"' in first
    assert 'id="p-2603.00052"' not in first.partition('id="nearest"')[0]


def test_others_are_offered_and_what_was_ticked_stays(client: Client) -> None:
    day()
    keys = re.findall(r'name="chosen" value="(\d+)"', client.get(ADDRESS).content.decode())
    answer = client.post(ADDRESS, {"categories": "cs.CL", "chosen": keys[:2], "sheet": "1"})
    assert answer.status_code == 200
    again = re.findall(r'name="chosen" value="(\d+)"', answer.content.decode())
    assert again[:2] == keys[:2]
    assert len(again) == 12
    assert set(again[2:]).isdisjoint(keys)

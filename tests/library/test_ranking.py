"""The ranking for a reader who saved a few papers, read from pages and the API.

The papers have forty words each, three of them of the topic, so that the margin of a paper that the
model has not seen is negative, as it is with real abstracts.
"""

from __future__ import annotations

import random
import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, WEDNESDAY, announce, paper, profile
from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.learning.tfidf import vocabulary
from webapp.library import feedback
from webapp.library.models import LibraryEntry, Star
from webapp.papers.models import Announcement, Paper

pytestmark = pytest.mark.django_db

TOPIC = ("lip", "reading", "speech", "audio", "visual", "mouth", "speaker", "acoustic")
WORDS = sorted(word for word in vocabulary() if " " not in word and word not in TOPIC)
OF_TOPIC = range(0, 60, 6)  # every sixth paper of a day
OF_TOPIC_ON_WEDNESDAY = [200 + number for number in OF_TOPIC]


def text(number: int) -> tuple[str, str]:
    """The title and abstract of a paper; of the topic if its number says so."""
    chance = random.Random(number)
    words = chance.sample(WORDS, 40)
    if number % 100 in OF_TOPIC:
        for place, word in zip((0, 1, 4, 8, 12, 18, 25, 30), chance.sample(TOPIC, 8), strict=True):
            words[place] = word
    return " ".join(words[:6]), " ".join(words[6:]) + "."


def day_of(date: Any, first: int, category: str = "cs.CL") -> list[Paper]:
    papers = []
    for number in range(first, first + 60):
        title, abstract = text(number)
        papers.append(paper(number, title, abstract=abstract))
    announce(date, *papers, category=category)
    return papers


@pytest.fixture
def reader(client: Client) -> User:
    made: User = factories.make_reader()
    client.force_login(made)
    return made


@pytest.fixture(autouse=True)
def _days() -> None:
    day_of(MONDAY, 0)
    day_of(TUESDAY, 100)
    day_of(WEDNESDAY, 200)


def save(reader: User, count: int) -> None:
    """Save papers of Monday's topic, as the button does, and learn as the worker does."""
    for number in list(OF_TOPIC)[:count]:
        Star.objects.create(reader=reader, paper=Paper.objects.get(arxiv_id=f"2603.{number:05d}"))
    feedback.learn(reader.pk)


def page(client: Client, slug: str = "mine", date: Any = WEDNESDAY) -> str:
    return client.get(f"/p/{slug}/{date}/").content.decode()


def cards(of: str) -> list[str]:
    """The identifiers of the papers that are listed on a page, in order, without folded ones."""
    return re.findall(r'id="p-([\d.]+)"', of.partition("<details")[0])


def on_topic(identifiers: list[str]) -> int:
    return sum(int(one[-5:]) % 100 in OF_TOPIC for one in identifiers)


def digest(client: Client, slug: str = "mine") -> dict[str, Any]:
    Profile.objects.filter(slug=slug).update(is_published=True)  # else the API wants a token
    answer: dict[str, Any] = client.get(f"/api/v1/digests/{slug}").json()
    return answer


@pytest.mark.parametrize("ranking", ["learned", "both"])
def test_five_saved_papers_list_what_is_close_and_fold_the_nearest_of_the_rest(
    client: Client, reader: User, ranking: str
) -> None:
    mine = profile("Mine", owner=reader, ranking=ranking, words=["no such word"])
    save(reader, 5)
    build([TUESDAY, WEDNESDAY], [mine])
    shown = page(client)
    listed = cards(shown)
    assert on_topic(listed) == 10
    assert len(listed) <= 13
    assert len(re.findall(r'id="p-', shown.partition('id="nearest"')[2])) == 30
    assert "Learned from 5 saved papers" in " ".join(shown.split())
    assert "page=2" not in shown


def test_a_day_without_anything_close_says_so(client: Client, reader: User) -> None:
    mine = profile("Mine", owner=reader, ranking="learned", words=[])
    save(reader, 5)
    kept = [f"2603.{number:05d}" for number in OF_TOPIC_ON_WEDNESDAY]
    Announcement.objects.filter(listing__date=WEDNESDAY, paper__arxiv_id__in=kept).delete()
    build([WEDNESDAY], [mine])
    shown = page(client)
    assert cards(shown) == []
    assert "Nothing close on this day" in shown
    entries = digest(client)["entries"]
    assert len(entries) == 30
    assert all(one["also_mentioned"] for one in entries)
    assert {one["matches"][0]["closeness"] for one in entries} == {"further"}
    feed = client.get(f"/p/mine.json?key={mine.feed_key}").json()["items"]
    assert [item["summary"] for item in feed] == ["Nothing close today. Closest other papers: 30"]


def test_a_saved_paper_is_no_news(client: Client, reader: User) -> None:
    mine = profile("Mine", owner=reader, ranking="both", words=[text(212)[1].split()[3]])
    save(reader, 5)
    build([WEDNESDAY], [mine])
    assert "2603.00212" in cards(page(client))
    Star.objects.create(reader=reader, paper=Paper.objects.get(arxiv_id="2603.00212"))
    feedback.learn(reader.pk)
    assert 'id="p-2603.00212"' not in page(client)
    assert len(cards(page(client))) >= 8


def test_a_list_is_as_long_as_the_profile_says_and_the_order_is_that_of_closeness(
    client: Client, reader: User
) -> None:
    mine = profile("Mine", owner=reader, ranking="learned", words=[], size=7)
    save(reader, 5)
    build([WEDNESDAY], [mine])
    entries = digest(client)["entries"]
    listed = [one for one in entries if not one["also_mentioned"]]
    assert len(listed) == 7
    scores = [one["score"] for one in listed]
    assert scores == sorted(scores, reverse=True)
    words = [one["matches"][0]["closeness"] for one in listed]
    assert words == sorted(words, reverse=True)  # "very close" before "close"
    assert set(words) <= {"very close", "close"}


@pytest.mark.parametrize("count", [1, 2])
def test_few_saved_papers_are_a_guess_and_say_so(client: Client, reader: User, count: int) -> None:
    mine = profile("Mine", owner=reader, ranking="learned", words=[])
    save(reader, count)
    build([WEDNESDAY], [mine])
    shown = " ".join(page(client).split())
    papers = "paper" if count == 1 else "papers"
    assert f"Learned from {count} saved {papers}. Save 5 for good recommendations." in shown
    assert len(cards(page(client))) > 0


def test_without_a_saved_paper_the_page_says_what_to_do(client: Client, reader: User) -> None:
    mine = profile("Mine", owner=reader, ranking="both", words=["no such word"])
    build([WEDNESDAY], [mine])
    assert "and this feed learns from them" in page(client)


def test_each_row_says_which_saved_paper_is_near(client: Client, reader: User) -> None:
    mine = profile("Mine", owner=reader, ranking="learned", words=[])
    save(reader, 5)
    saved = set(Star.objects.values_list("paper__title", flat=True))
    build([WEDNESDAY], [mine])
    first = digest(client)["entries"][0]["matches"][0]
    assert first["near"] in saved
    shown = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page(client))))
    assert f"close to {first['near']}" in shown


@pytest.mark.parametrize("size", [4, 30])
def test_likes_never_take_from_what_keywords_find(client: Client, reader: User, size: int) -> None:
    words = text(205)[1].rstrip(".").split()[:12]
    profile("Rules", owner=reader, ranking="rules", words=words, size=size)
    profile("Mine", owner=reader, ranking="both", words=words, size=size)
    save(reader, 5)
    build([WEDNESDAY], Profile.objects.filter(owner=reader))
    by_rules, both = cards(page(client, "rules")), cards(page(client, "mine"))
    assert by_rules
    assert set(by_rules) <= set(both)
    assert on_topic(both) > on_topic(by_rules)


def test_not_for_me_pushes_down_and_says_so(client: Client, reader: User) -> None:
    word = text(212)[1].split()[3]
    mine = profile("Mine", owner=reader, ranking="both", words=[word], size=60)
    save(reader, 5)
    refused = paper(300, text(212)[0], abstract=text(212)[1])
    build([WEDNESDAY], [mine])
    before = cards(page(client)).index("2603.00212")
    LibraryEntry.objects.create(reader=reader, paper=refused, not_for_me=True)
    feedback.learn(reader.pk)
    shown = page(client)
    assert cards(shown).index("2603.00212") > before
    entry = next(e for e in digest(client)["entries"] if e["paper"]["id"] == "2603.00212")
    down = [one for one in entry["matches"] if one["points"] < 0]
    assert [one["near"] for one in down] == [text(212)[0]]
    why = client.get("/papers/2603.00212/").content.decode()
    assert "similar to a paper marked" in why


def titles_by_day(preview: str) -> list[list[str]]:
    return [re.findall(r'href="/papers/([\d.]+)/"', day) for day in preview.split("<summary>")[1:]]


@pytest.mark.parametrize("words", ["", "nosuchword"])
def test_first_steps_preview_what_the_first_page_then_holds(
    client: Client, reader: User, words: str
) -> None:
    liked = " ".join(f"2603.{number:05d}" for number in list(OF_TOPIC)[:5])
    asked = {"categories": "cs.CL", "interests": f"{words}\n{liked}"}
    preview = client.post("/first-steps/", asked | {"preview": "1"}).content.decode()
    assert not Star.objects.exists()
    wednesday, tuesday, _monday = titles_by_day(preview)
    assert on_topic(wednesday[:10]) >= 8
    made = client.post("/first-steps/", asked)["Location"]
    assert cards(client.get(made).content.decode()) == wednesday
    assert cards(client.get(f"{made}{TUESDAY}/").content.decode()) == tuesday

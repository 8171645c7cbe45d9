"""A reader's profile is private: every way to it is closed to others until it is published."""

from __future__ import annotations

import logging
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests import factories
from webapp.api import tokens
from webapp.core.logs import Formatter
from webapp.digests.models import DigestEntry, Profile

SECRET = "flamingo"  # a word that only the private profile has
DAY = factories.DAY


@pytest.fixture
def owner() -> User:
    made: User = factories.make_reader("owner")
    return made


@pytest.fixture
def mine(owner: User) -> Profile:
    factories.make_digest(factories.make_profile(), [factories.make_paper(1)])
    keywords = [{"keyword": SECRET, "weight": 1.0, "title_bonus": 0.5}]
    made = factories.make_profile("mine", name=f"{SECRET} lists", owner=owner, keywords=keywords)
    factories.make_digest(made, [factories.make_paper(2)])
    learned = {"keyword": f"{SECRET} memory", "where": [], "points": 1.2, "rarity": "learned"}
    DigestEntry.objects.filter(digest__profile=made).update(matches=[learned])
    return made


def signed_in(reader: User) -> Client:
    client = Client()
    client.force_login(reader)
    return client


PLACES = [
    *("/p/mine/", f"/p/mine/{DAY}/", "/digest/?profile=mine"),
    *(f"/p/mine.{form}" for form in ("rss", "atom", "json")),
    *(f"/p/mine/{DAY}.{form}" for form in ("rss", "atom", "json")),
    *("/api/v1/digests/mine", f"/api/v1/digests/mine?date={DAY}"),
    *("/api/v1/digests/flamingo%20lists", "/feeds/mine/"),
]
LISTS = ["/", "/feeds/", "/feeds/opml", "/api/v1/profiles", "/digest/"]


def others() -> list[Client]:
    stranger = factories.make_reader("stranger")
    token = tokens.make(stranger, "all", ["library", "runs"])
    bearer = Client(headers={"Authorization": f"Bearer {token}"})
    return [Client(), signed_in(stranger), bearer]


@pytest.mark.django_db
def test_nobody_else_sees_a_private_profile_or_that_it_exists(mine: Profile, owner: User) -> None:
    # The owner looks first: what is kept for them must not be handed to others.
    for place in (*PLACES, *LISTS):
        signed_in(owner).get(place)
    for client in others():
        for place in PLACES:
            answer = client.get(place)
            assert SECRET not in _without(answer, place), place
            assert answer.status_code in {302, 404}, place
            if answer.status_code == 302:
                assert answer["Location"].startswith("/sign-in/"), place
        for place in LISTS:
            text = client.get(place).content.decode()
            assert SECRET not in text, place
            assert "mine" not in text.replace("determine", ""), place


def _without(answer: Any, place: str) -> str:
    """The answer's text without the name that was asked for."""
    text: str = answer.content.decode()
    return text.replace("flamingo lists", "") if "flamingo" in place else text


@pytest.mark.django_db
def test_its_owner_sees_it_everywhere(mine: Profile, owner: User) -> None:
    client = signed_in(owner)
    for place in ("/p/mine/", f"/p/mine/{DAY}/", "/feeds/", "/feeds/opml"):
        answer = client.get(place)
        assert answer.status_code == 200
        assert SECRET in answer.content.decode(), place
        assert "public" not in answer.headers.get("Cache-Control", ""), place
    token = tokens.make(owner, "library", ["library"])
    bearer = Client(headers={"Authorization": f"Bearer {token}"})
    assert SECRET in bearer.get("/api/v1/profiles").content.decode()
    assert SECRET in bearer.get("/api/v1/digests/mine").content.decode()


@pytest.mark.django_db
def test_the_feeds_of_a_private_profile_have_a_secret_address_that_is_renewed(
    mine: Profile, owner: User
) -> None:
    page = signed_in(owner).get("/p/mine/").content.decode()
    address = f"/p/mine.rss?key={mine.feed_key}"
    assert f'href="{address}"' in page
    answer = Client().get(address)
    assert SECRET in answer.content.decode()
    assert answer["Cache-Control"].startswith("private")
    assert "Access-Control-Allow-Origin" not in answer
    for wrong in ("", "x", "%00", mine.feed_key[:-1], mine.feed_key.swapcase()):
        assert Client().get(f"/p/mine.rss?key={wrong}").status_code == 404
    assert Client().get(f"/p/mine/?key={mine.feed_key}").status_code == 404  # feeds alone
    signed_in(owner).post("/feeds/mine/", {"renew": "1"})
    assert Client().get(address).status_code == 404
    mine.refresh_from_db()
    assert Client().get(f"/p/mine.json?key={mine.feed_key}").status_code == 200
    outline = ElementTree.fromstring(signed_in(owner).get("/feeds/opml").content)
    urls = [one.get("xmlUrl", "") for one in outline.iter("outline")]
    assert any(url.endswith(f"/p/mine.rss?key={mine.feed_key}") for url in urls)


@pytest.mark.django_db
def test_publishing_says_what_is_shown_and_can_be_taken_back(mine: Profile, owner: User) -> None:
    client = signed_in(owner)
    form = client.get("/feeds/mine/").content.decode()
    assert "Anyone can then see its name" in form
    assert "titles of papers that you saved" in form
    sent = {
        "name": mine.name,
        "categories": "cs.LG",
        "keywords": SECRET,
        "announce_types": "new",
        "matching": "token",
        "min_score": "0",
        "size": "30",
        "language": "en",
        "save": "1",
    }
    for published in (True, False):
        client.post("/feeds/mine/", sent | ({"is_published": "on"} if published else {}))
        assert Profile.objects.get(slug="mine").is_published is published
        for place in ("/p/mine/", "/p/mine.rss", "/api/v1/digests/mine"):
            assert (Client().get(place).status_code == 200) is published, place


@pytest.mark.django_db
def test_the_sites_and_the_operators_profiles_stay_public() -> None:
    factories.make_digest(factories.make_profile(), [factories.make_paper(1)])
    factories.make_digest(factories.make_profile("bot", name="Bot"), [factories.make_paper(2)])
    for place in ("/", "/digest.rss", "/p/bot/", "/p/bot.atom", "/api/v1/digests/bot"):
        assert Client().get(place).status_code == 200, place


@pytest.mark.django_db
def test_a_token_takes_nothing_public_away(owner: User) -> None:
    factories.make_digest(factories.make_profile(), [factories.make_paper(1)])
    for scopes in (["runs"], ["library"]):
        token = tokens.make(owner, "one", scopes)
        client = Client(headers={"Authorization": f"Bearer {token}"})
        for place in ("profiles", "digests/site", "papers?q=attention", "runs", "methods"):
            assert client.get(f"/api/v1/{place}").status_code == 200, (scopes, place)


def test_a_log_hides_the_key_of_a_feed() -> None:
    record = logging.makeLogRecord({"msg": "Not Found: /p/mine.rss?key=abcdefghijklmnopqrstuv"})
    assert Formatter("%(message)s").format(record).endswith("?key=…")

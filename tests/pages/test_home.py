"""Signed in, the home page is the reader's own feed, and the site's stands beside it."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests import factories
from tests.digests.days import MONDAY, announce, paper, profile
from webapp.digests.build import build

pytestmark = pytest.mark.django_db


def cards(page: str) -> list[str]:
    return re.findall(r'<article class="card[^>]*id="p-([\d.]+)"', page)


def current(page: str) -> list[str]:
    feeds = page.partition('class="turn feeds"')[2].partition("</nav>")[0]
    return re.findall(r'<a href="([^"]*)" aria-current="true">', feeds)


def test_home_is_the_readers_first_feed(client: Client) -> None:
    announce(MONDAY, paper(1, "On sparse attention"), paper(2, "On robots"))
    site = factories.make_profile()
    site.keywords = [{"keyword": "attention"}]
    site.save()
    ada, ben, cleo = (factories.make_reader(name) for name in ("ada", "ben", "cleo"))
    robots = profile("Robots", slug="robots", owner=ada, words=["robots"])
    profile("Later", slug="later", owner=ada, words=["attention"])
    sparse = profile("Sparse", slug="sparse", owner=ben, words=["sparse"])
    build([MONDAY])

    assert cards(client.get("/").content.decode()) == ["2603.00001"]
    # In turns, so that no page that is kept for one reader is another's.
    for _ in range(2):
        for reader, mine, found in (
            (ada, robots, "2603.00002"),
            (ben, sparse, "2603.00001"),
            (cleo, None, "2603.00001"),
        ):
            client.force_login(reader)
            page = client.get("/").content.decode()
            assert cards(page) == [found]
            assert current(page) == [f"/p/{mine.slug if mine else site.slug}/"]
            assert f'<a href="/p/{site.slug}/"' in page
            assert ("Make your own feed" in page) is (mine is None)
            page = client.get(f"/p/{site.slug}/").content.decode()
            assert cards(page) == ["2603.00001"]
            assert current(page) == [f"/p/{site.slug}/"]
            client.logout()


def test_home_follows_its_feed(client: Client) -> None:
    announce(MONDAY, paper(1, "On sparse attention"), paper(2, "On robots"))
    ada = factories.make_reader("ada")
    mine = profile("Mine", slug="mine", owner=ada, words=["robots"])
    build([MONDAY], [mine])
    client.force_login(ada)
    assert cards(client.get("/").content.decode()) == ["2603.00002"]
    mine.keywords = [{"keyword": "attention"}]
    mine.save()
    build([MONDAY], [mine])
    assert cards(client.get("/").content.decode()) == ["2603.00001"]
    assert cards(client.get("/?keyword=robots").content.decode()) == []
    mine.delete()
    assert "Make your own feed" in client.get("/").content.decode()

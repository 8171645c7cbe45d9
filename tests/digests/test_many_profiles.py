"""The lists of profiles and feeds are paged: what a page costs does not grow with the readers."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests import factories
from tests.digests.days import MONDAY, announce, paper, profile
from webapp.digests.build import build
from webapp.digests.models import Profile

pytestmark = pytest.mark.django_db
ADDRESS = "/feeds/"


def test_a_page_has_fifty_profiles_and_leads_to_the_next(client: Client) -> None:
    factories.make_profile()
    private = factories.make_reader()
    seen: set[str] = set()
    asked = []
    for number in (20, 120):
        for at in range(Profile.objects.filter(is_site=False).count() // 2, number):
            profile(f"Public {at:03d}", slug=f"public-{at}")
            profile(f"Private {at:03d}", slug=f"private-{at}", owner=private)
        with CaptureQueriesContext(connection) as queries:
            first = client.get(ADDRESS).content.decode()
        asked.append(len(queries))
    assert asked[0] == asked[1] <= 8
    pages = [first, *(client.get(f"{ADDRESS}?page={at}").content.decode() for at in (2, 3))]
    for page in pages:
        names = set(re.findall(r"Public \d{3}", page))
        assert len(names) <= 50
        assert not names & seen
        seen |= names
    assert len(seen) == 120
    assert "page=2" in first
    assert not re.search(r"Private \d{3}", "".join(pages))


def test_an_unchanged_list_is_one_lookup_and_a_write_makes_it_anew(client: Client) -> None:
    mine = profile("Public", slug="public")
    private = profile("Private", slug="private", owner=factories.make_reader())
    tag = client.get(ADDRESS)["ETag"]
    with CaptureQueriesContext(connection) as queries:
        assert client.get(ADDRESS, headers={"If-None-Match": tag}).status_code == 304
    assert len(queries) == 1
    Profile.objects.filter(pk=mine.pk).update(name="Renamed")
    changed = client.get(ADDRESS, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert "Renamed" in changed.content.decode()
    announce(MONDAY, paper(1))
    build([MONDAY], [mine])
    assert "cs.CL" in client.get(ADDRESS).content.decode()
    assert "2 Mar 2026" in client.get(ADDRESS).content.decode()
    client.force_login(User.objects.get())
    assert "Private" in client.get(ADDRESS).content.decode(), private.slug


def test_programs_get_the_profiles_a_page_at_a_time(client: Client) -> None:
    for at in range(120):
        profile(f"Public {at:03d}", slug=f"public-{at}")
    asked, seen = [], []
    page: int | None = 1
    while page:
        with CaptureQueriesContext(connection) as queries:
            found = client.get(f"/api/v1/profiles?page={page}").json()
        asked.append(len(queries))
        assert found["count"] == 120
        seen += [one["slug"] for one in found["items"]]
        page = found["next"]
    assert asked == [2, 2, 2]
    assert seen == [f"public-{at}" for at in range(120)]

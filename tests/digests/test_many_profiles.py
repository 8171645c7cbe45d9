"""The lists of profiles and feeds are paged: what a page costs does not grow with the readers."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests import factories
from tests.digests.days import profile
from webapp.digests.models import Profile

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("address", ["/profiles/", "/feeds/"])
def test_a_page_has_fifty_profiles_and_leads_to_the_next(client: Client, address: str) -> None:
    factories.make_profile()
    private = factories.make_reader()
    seen: set[str] = set()
    asked = []
    for number in (20, 120):
        for at in range(Profile.objects.filter(is_site=False).count() // 2, number):
            profile(f"Public {at:03d}", slug=f"public-{at}")
            profile(f"Private {at:03d}", slug=f"private-{at}", owner=private)
        with CaptureQueriesContext(connection) as queries:
            first = client.get(address).content.decode()
        asked.append(len(queries))
    assert asked[0] == asked[1] <= 8
    pages = [first, *(client.get(f"{address}?page={at}").content.decode() for at in (2, 3))]
    for page in pages:
        names = set(re.findall(r"Public \d{3}", page))
        assert len(names) <= 50
        assert not names & seen
        seen |= names
    assert len(seen) == 120
    assert "page=2" in first
    assert not re.search(r"Private \d{3}", "".join(pages))

"""The page that says why a feed does not list a paper."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile
from webapp.digests.build import build
from webapp.digests.profiles.validation import site_profile
from webapp.library import feedback
from webapp.library.models import Star
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
ABSTRACT = "We study owls and their flight."


def answers(client: Client, arxiv_id: str = "2603.00001") -> dict[str, str]:
    """The reason of each feed, by its name and day."""
    page = client.get(f"/papers/{arxiv_id}/why-not/").content.decode()
    page = page.partition("<h1>")[2].partition("</dl>")[0]
    found = re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", page, re.DOTALL)
    plain = [[" ".join(re.sub(r"<[^>]+>", "", part).split()) for part in pair] for pair in found]
    return {name.partition(" · ")[0]: reason for name, reason in plain}


@pytest.fixture
def mine(client: Client):
    reader = factories.make_reader()
    client.force_login(reader)
    return lambda **fields: profile("Owls", owner=reader, **fields)


CASES = [
    ({"words": ["zebra"]}, "None of the feed’s keywords is in its title or abstract."),
    (
        {"words": ["flight"], "min_score": 3},
        "It matches “flight” with 1.0 points; the feed needs 3.",
    ),
    ({"words": ["flight"], "exclude": ["owls"]}, "It contains “owls”, which the feed excludes."),
    (
        {"words": ["flight"], "categories": ["hep-th"]},
        "It was announced in cs.CL; the feed reads hep-th.",
    ),
    (
        {"words": ["flight"], "announce_types": ["replace"]},
        "It was announced as “new”, which the feed leaves out.",
    ),
    ({"words": ["study"], "size": 1}, "Other papers of the day rank higher, and the list is full."),
    (
        {"words": ["flight"], "matching": "rarity"},
        "It mentions “flight” once, outside the title and the sentence on what it does.",
    ),
]


@pytest.mark.parametrize(("fields", "reason"), CASES, ids=[text[:30] for _, text in CASES])
def test_each_obstacle_is_named(client: Client, mine, fields, reason: str) -> None:
    paper(1, "Birds", abstract="Birds are studied. The flight of owls is among it, and they study.")
    paper(2, "Study of study", abstract="We study.")
    announce(MONDAY, *Paper.objects.all())
    build([MONDAY], [mine(**fields), site_profile()])
    assert answers(client)["Owls"] == reason


def test_a_listed_paper_is_said_to_be_listed(client: Client, mine) -> None:
    announce(MONDAY, paper(1, "Owls", abstract=ABSTRACT))
    build([MONDAY], [mine(words=["owls"]), site_profile()])
    assert answers(client)["Owls"] == "It is in this list."
    assert answers(client)["Assay"].startswith("It is less close to this feed’s papers")


def test_a_saved_paper_is_in_the_library(client: Client, mine) -> None:
    for number in range(2, 30):
        announce(MONDAY, paper(number, f"Boats {number}", abstract="Boats are built."))
    saved = paper(1, "Owls", abstract=ABSTRACT)
    announce(TUESDAY, saved, paper(40, "Boats", abstract="Boats are built."))
    feed = mine(words=["zebra"], ranking="both")
    Star.objects.create(reader=feed.owner, paper=saved)
    feedback.learn(feed.owner_id)
    assert answers(client)["Owls"] == "You saved it, so it is in your library."
    assert answers(client, "2603.00040")["Owls"] == (
        "It is further from what you saved than the papers that the feed lists."
    )


def test_a_paper_that_was_never_announced(client: Client, mine) -> None:
    mine(words=["owls"])
    paper(1, "Owls", abstract=ABSTRACT)
    reason = "This site has not seen it announced."
    assert answers(client) == {"Owls": reason}


def test_the_page_of_a_paper_leads_there(client: Client) -> None:
    announce(MONDAY, paper(1, "Owls", abstract=ABSTRACT))
    build([MONDAY], [site_profile()])
    page = client.get("/papers/2603.00001/").content.decode()
    assert '<a href="/papers/2603.00001/why-not/" rel="nofollow">' in page
    # Another reader's feeds are not named.
    other = factories.make_reader("other")
    profile("Secret", owner=other, words=["owls"])
    assert list(answers(client)) == ["Assay"]
    assert client.get("/papers/2603.99999/why-not/").status_code == 404


def test_a_hostile_title_is_sanitised(client: Client) -> None:
    hostile = "Owls <script>alert(1)</script><img src=x onerror=alert(1)>"
    announce(MONDAY, paper(1, title="Owls", abstract=ABSTRACT))
    Paper.objects.update(title_html=hostile)
    page = client.get("/papers/2603.00001/why-not/").content.decode()
    assert "Owls" in page
    assert "alert(1)</script>" not in page
    assert "onerror" not in page


def test_a_list_of_a_day_without_its_announcement_is_explained_by_another_day(
    client: Client,
) -> None:
    """As after an upgrade that lost a listing: the page answers."""
    announce(MONDAY, paper(1, title="Owls", abstract=ABSTRACT))
    [announced] = Paper.objects.all()
    digest = factories.make_digest(site_profile(), [announced])
    digest.entries.update(also_mentioned=True)
    assert client.get("/papers/2603.00001/why-not/").status_code == 200

"""A search as a page, as a feed, and as a profile that keeps finding the same."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, announce, listing, paper, shown
from webapp.catalog.models import MethodLink
from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.papers.days import DAY

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _papers() -> None:
    for day, number, title in (
        (MONDAY, 1, "Sparse attention"),
        (TUESDAY, 2, "Sparse lanterns need attention"),
        (TUESDAY, 3, "Dense lanterns"),
    ):
        announce(day, paper(number, title, announced_on=day, abstract="We measure."))
    listing(MONDAY, "hep-th")


def test_the_page_orders_dates_marks_and_offers_its_feeds(client: Client) -> None:
    page = client.get("/search", {"q": "sparse attention", "order": "newest"}).content.decode()
    assert page.index("2603.00002") < page.index("2603.00001")
    assert '<option value="newest" selected>' in page
    assert "2 Mar 2026" in page
    assert '<mark data-k="0">Sparse</mark>' in page
    assert "/search.atom?q=sparse+attention" in page
    best = client.get("/search", {"q": "sparse attention"}).content.decode()
    assert best.index("2603.00001") < best.index("2603.00002")


def test_a_period_is_of_days_before_today(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.pages.papers.now", lambda: factories.moment(TUESDAY + 7 * DAY, 12))

    def found(period: str) -> list[str]:
        asked = {"q": "sparse attention", "period": period}
        return [one.arxiv_id for one in client.get("/search", asked).context["results"].papers]

    assert found("7") == ["2603.00002"]
    assert found("31") == found("") == found("8") == ["2603.00001", "2603.00002"]


def test_the_page_says_what_it_left_out_and_what_may_be_meant(client: Client) -> None:
    page = client.get("/search", {"q": "lanterns atention zzzz"}).content.decode()
    assert "No paper contains <b>atention, zzzz</b>" in page
    assert "/search?q=lanterns+attention+zzzz" in page.replace('href="?', 'href="/search?')


def test_a_search_is_a_feed_of_the_latest_and_stays_strict(client: Client) -> None:
    feed = json.loads(client.get("/search.json", {"q": "sparse attention"}).content)
    assert [item["url"].rpartition("papers/")[2] for item in feed["items"]] == [
        "2603.00002/",
        "2603.00001/",
    ]
    assert "Found by “sparse attention”" in feed["items"][0]["content_html"]
    assert json.loads(client.get("/search.json?q=zebra").content)["items"] == []
    assert client.get("/search.rss").status_code == 404
    assert client.get("/search.atom?category=cs.CL").status_code == 200
    tag = client.get("/search.rss?q=dense")["ETag"]
    again = client.get("/search.rss?q=dense", headers={"If-None-Match": tag})
    assert again.status_code == 304


def test_a_question_in_ordinary_words_has_an_answer(client: Client) -> None:
    """The page, the feed and the API say which papers have only some of its words."""
    asked = {"q": "how dense can sparse attention be"}
    page = client.get("/search", asked).content.decode()
    assert page.count("Papers with some of the words") == 1
    assert "No paper has all of these words" in page
    feed = json.loads(client.get("/search.json", asked).content)["items"]
    assert feed
    assert all("Has some words of “how dense" in item["content_html"] for item in feed)
    answer = client.get("/api/v1/papers", asked).json()
    assert (answer["count"], answer["some_from"]) == (0, 0)
    assert answer["some"] == len(answer["items"]) == len(feed)
    exact = client.get("/search", {"q": "sparse attention"}).content.decode()
    assert "some of the words" not in exact


def test_a_search_is_saved_as_a_profile_that_keeps_what_it_finds(client: Client) -> None:
    client.force_login(factories.make_reader())
    form = client.get("/feeds/new/", {"q": "sparse atten* -dense cs.CL"}).context["form"]
    client.post("/feeds/new/", form.initial | {"save": "1"})
    profile = Profile.objects.get(owner__isnull=False)
    build([MONDAY, TUESDAY], [profile])
    assert profile.categories == ["cs.CL"]
    assert shown(profile, MONDAY) == ["2603.00001"]
    assert shown(profile, TUESDAY) == ["2603.00002"]


def test_what_a_profile_cannot_hold_of_a_search_is_said(client: Client) -> None:
    client.force_login(factories.make_reader())
    q = 'sparse method:seps has:measured after:2026-01 title:"long context" -cat:cs.CV author:doe'
    page = client.get("/feeds/new/", {"q": q})
    lost = (
        "<code>method:seps  has:measured  after:2026-01  title:&quot;long context&quot;  -cat:cs.CV"
    )
    assert f"{lost}</code>" in page.content.decode()
    initial = page.context["form"].initial
    assert initial["keywords"].split("\n") == [
        "sparse ; 1 ; 0", "long context ; 1 ; 0", "author:doe ; 1 ; 0"
    ]  # fmt: skip
    assert (initial["exclude"], initial["min_score"]) == ("", 3)
    assert (
        "Part of this search cannot be saved"
        not in client.get("/feeds/new/?q=sparse").content.decode()
    )


def test_methods_answer_for_their_fields(client: Client) -> None:
    first = factories.Paper.objects.get(arxiv_id="2603.00001")
    MethodLink.objects.create(paper=first, method="sparse_attention", relation="about")

    def found(q: str) -> list[str]:
        papers = client.get("/search", {"q": q}).context["results"].papers
        return [one.arxiv_id for one in papers]

    assert found("method:sparse-attention") == ["2603.00001"]
    assert found("lanterns method:sparse_attention") == []
    assert found("has:measured") == []
    assert found("method:none attention") == []

"""A digest page is rendered once; each reader's own pieces are laid over it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests import factories
from webapp.library.models import LibraryEntry, Star
from webapp.pages import days as views
from webapp.papers.models import Announcement, Listing, Paper

pytestmark = pytest.mark.django_db


@pytest.fixture
def papers() -> list[Paper]:
    papers = [factories.make_paper(number) for number in (1, 2, 3)]
    factories.make_listing("cs.LG")
    factories.make_digest(factories.make_profile(), papers)
    return papers


def signed_in(name: str) -> tuple[Client, User]:
    client, user = Client(), User.objects.create_user(name)
    client.force_login(user)
    return client, user


def body(client: Client, address: str = "/") -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def test_stars_and_header_are_each_readers_own(papers: list[Paper]) -> None:
    ada, ada_user = signed_in("ada")
    eve, _ = signed_in("eve")
    Star.objects.create(reader=ada_user, paper=papers[0])
    LibraryEntry.objects.create(reader=ada_user, paper=papers[1], not_for_me=True)
    for _ in range(2):  # anew, and from memory
        mine, hers, nobodys = body(ada), body(eve), body(Client())
        assert "Signed in as ada" in mine
        assert "Signed in as eve" in hers
        assert "Signed in" not in nobodys
        assert [mine.count('aria-pressed="true"'), hers.count('aria-pressed="true"')] == [2, 0]
        assert 'class="star"' not in nobodys
        for paper in papers:
            assert mine.count(f'value="{paper.arxiv_id}"') == 2
            assert f'id="p-{paper.arxiv_id}"' in nobodys
    at = mine.index(f'value="{papers[0].arxiv_id}"')
    assert 'aria-pressed="true"' in mine[at : at + 120]


def test_a_form_carries_its_own_readers_token(papers: list[Paper]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_user("ada"))
    body(client)
    token = client.cookies["csrftoken"].value
    sent = {"paper": papers[0].arxiv_id, "csrfmiddlewaretoken": token, "next": "/"}
    assert client.post("/star/", sent).status_code == 302
    assert Star.objects.count() == 1


def test_a_second_reader_renders_no_card(
    papers: list[Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, _ = signed_in("ada")
    eve, _ = signed_in("eve")
    body(ada)

    def refuse(*args: object) -> None:
        raise AssertionError("rendered again")

    monkeypatch.setattr(views, "_render_digest", refuse)
    with CaptureQueriesContext(connection) as queries:
        body(eve)
    assert len(queries) <= 6  # session, reader, home, stamp, feeds, shelf
    assert "Signed in" not in body(Client())


def test_no_mark_is_left_and_no_paper_can_write_one(client: Client, papers: list[Paper]) -> None:
    from webapp.ui import personal

    assert personal._NONCE not in body(client)
    ada, _ = signed_in("ada")
    assert personal._NONCE not in body(ada)


def test_an_old_day_reads_no_audit_rows_of_later_days(client: Client, papers: list[Paper]) -> None:
    for back in range(1, 40):
        factories.make_listing("cs.LG", factories.DAY + timedelta(days=back), reason="later")
    with CaptureQueriesContext(connection) as queries:
        body(client, "/digest/2026-03-12/")
    assert not [
        one for one in queries if '"date" >=' in one["sql"] and "papers_listing" in one["sql"]
    ]
    address = "/digest/2026-03-12/"
    tag = client.get(address)["ETag"]
    factories.make_listing("cs.LG", factories.DAY + timedelta(days=50))
    assert client.get(address)["ETag"] == tag


def test_a_category_is_kept_until_what_it_shows_changes(papers: list[Paper]) -> None:
    listing = Listing.objects.get(category="cs.LG")
    for paper in papers:
        Announcement.objects.create(listing=listing, paper=paper, type="new", version=1)
    ada, _ = signed_in("ada")
    address = "/category/cs.LG/"
    assert "Signed in as ada" in body(ada, address)
    anonymous = Client()
    assert "Signed in" not in body(anonymous, address)
    with CaptureQueriesContext(connection) as queries:
        body(anonymous, address)
    assert len(queries) == 1
    Paper.objects.filter(pk=papers[0].pk).update(version=2, title_html="Another title")
    assert "Another title" in body(anonymous, address)
    assert anonymous.get(f"{address}?date=2026-03-99").status_code == 404

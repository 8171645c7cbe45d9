"""Signing in by a link, and out again, over HTTP."""

from datetime import timedelta

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from webapp.readers import links

pytestmark = pytest.mark.django_db


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_looking_at_a_link_does_not_use_it(client: Client) -> None:
    page = reverse("readers:use-link", args=[links.make_link(links.administrator())])
    for _ in range(2):
        answer = client.get(page)
        assert answer.status_code == 200
        assert "no-store" in answer["Cache-Control"]
        assert 'method="post"' in answer.content.decode()
    assert client.head(page).status_code == 200
    assert not signed_in(client)


def test_pressing_the_button_signs_in_once(client: Client) -> None:
    page = reverse("readers:use-link", args=[links.make_link(links.administrator())])
    answer = client.post(page)
    assert (answer.status_code, answer["Location"]) == (302, "/first-steps/")
    assert signed_in(client)
    again = reverse("readers:use-link", args=[links.make_link(links.administrator())])
    assert Client().post(again)["Location"] == "/"

    other = Client()
    answer = other.post(page)
    assert answer.status_code == 410
    assert "This link has already been used or has expired." in answer.content.decode()
    assert not signed_in(other)


def test_a_link_is_not_spent_where_no_session_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    page = reverse("readers:use-link", args=[links.make_link(links.administrator())])

    def full(*_: object, **__: object) -> None:
        raise OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(SessionStore, "save", full)
        assert client.post(page).status_code == 503
    assert client.post(page).status_code == 302


def test_an_expired_link_says_so(client: Client) -> None:
    token = links.make_link(links.administrator(), timedelta(seconds=-1))
    assert client.post(reverse("readers:use-link", args=[token])).status_code == 410


def test_the_button_is_guarded_against_other_sites() -> None:
    page = reverse("readers:use-link", args=[links.make_link(links.administrator())])
    guarded = Client(enforce_csrf_checks=True)
    assert guarded.post(page).status_code == 403
    token = guarded.get(page).cookies["csrftoken"].value
    assert guarded.post(page, {"csrfmiddlewaretoken": token}).status_code == 302


def test_signing_out(client: Client) -> None:
    client.force_login(links.administrator())
    assert client.get(reverse("readers:sign-out")).status_code == 405
    assert signed_in(client)
    assert client.post(reverse("readers:sign-out")).status_code == 302
    assert not signed_in(client)


def test_the_page_tells_how_to_come_by_a_link(client: Client) -> None:
    answer = client.get(reverse("readers:sign-in"))
    assert answer.status_code == 200
    assert "manage.py sign_in_link" in answer.content.decode()


def test_a_sign_in_makes_another_session_key(client: Client) -> None:
    """Whoever planted the key of a session in a browser does not share what it then may do."""
    links.administrator()
    client.force_login(links.new_reader("ada"))
    planted = client.cookies["sessionid"].value
    client.post(reverse("readers:use-link", args=[links.make_link(links.administrator())]))
    assert signed_in(client)
    assert client.cookies["sessionid"].value != planted

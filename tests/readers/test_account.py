"""Accounts: invitations, links by mail, what is kept of a reader, and its end."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from tests import factories
from tests.digests.days import MONDAY, announce, paper, profile
from tests.mail.conftest import Inbox
from tests.mail.conftest import inbox as inbox  # noqa: PLC0414 - a fixture
from webapp.api import tokens
from webapp.core import tasks
from webapp.digests.models import Profile
from webapp.library.models import Star
from webapp.readers import links
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client) -> User:
    made = links.administrator()
    client.force_login(made)
    return made


def test_an_invitation_is_a_link_shown_once(client: Client, admin: User) -> None:
    page = client.post("/account/readers/", {"name": "ada"}).content.decode()
    link = re.search(r"/sign-in/[\w-]+/", page)[0]
    assert link not in client.get("/account/readers/").content.decode()
    guest = Client()
    assert guest.post(link)["Location"] == "/first-steps/"
    assert not User.objects.get(username="ada").is_superuser
    assert (
        "There is already a reader called"
        in client.post("/account/readers/", {"name": "ada"}, follow=True).content.decode()
    )
    assert guest.get("/account/readers/").status_code == 403
    assert guest.post("/account/readers/", {"name": "eve"}).status_code == 403
    assert not User.objects.filter(username="eve").exists()


def test_an_account_is_switched_off_and_on(client: Client, admin: User) -> None:
    ada = factories.make_reader("ada")
    guest = Client()
    guest.force_login(ada)
    client.post("/account/readers/", {"off": ada.pk})
    assert guest.get("/account/")["Location"].startswith("/sign-in/")
    client.post("/account/readers/", {"on": ada.pk})
    assert guest.get("/account/").status_code == 200
    client.post("/account/readers/", {"off": admin.pk})
    admin.refresh_from_db()
    assert admin.is_active


def test_where_mail_is_set_up_links_are_mailed(
    client: Client, admin: User, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.post("/account/readers/", {"name": "ada", "email": "ada@home.example"})
    assert inbox.mails[0]["To"] == "ada@home.example"
    guest = Client()
    sent: list[str] = []
    monkeypatch.setattr(tasks, "send_if_room", lambda _name, args, *_, **__: not sent.append(*args))
    for address in ["nobody@home.example", *["ADA@home.example"] * 4]:
        before = len(inbox.mails)
        page = guest.post("/sign-in/", {"address": address}).content.decode()
        assert "Check your mail" in page
        assert len(inbox.mails) == before  # a worker mails it
        for one in sent:
            links.mail_link(one)
        sent.clear()
    assert len(inbox.mails) == links.MAILED_A_DAY  # the invitation is one of them
    link = re.search(r"https://site.example(/\S+)", inbox.mails[-1].get_content())[1]
    assert guest.post(link).status_code == 302
    assert guest.get("/account/").status_code == 200


def test_while_no_worker_can_be_asked_the_sign_in_says_so(
    client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To whoever asks, so that nobody learns who reads here."""
    User.objects.filter(pk=factories.make_reader("ada").pk).update(email="ada@home.example")
    monkeypatch.setattr(tasks, "send_if_room", lambda *_, **__: False)
    for name in ("ada", "nobody"):
        page = client.post("/sign-in/", {"address": f"{name}@home.example"}).content.decode()
        assert "No link can be mailed right now" in page
        assert "Check your mail" not in page


def test_without_mail_nothing_is_asked_for(client: Client) -> None:
    assert "Mail me a link" not in client.get("/sign-in/").content.decode()
    assert "Check your mail" not in client.post("/sign-in/", {"address": "a@b.c"}).content.decode()


def test_everything_kept_of_a_reader_is_theirs_to_take_and_to_delete(client: Client) -> None:
    ada, other = factories.make_reader("ada"), factories.make_reader("other")
    paper = factories.make_paper(1)
    for reader in (ada, other):
        Star.objects.create(reader=reader, paper=paper)
        profile(f"Of {reader}", slug=f"of-{reader}", owner=reader)
    secret = tokens.make(ada, "script")
    client.force_login(ada)
    kept = client.get("/account/data.json")
    rows = kept.json()
    assert [one["name"] for one in rows["digests.profile"]] == ["Of ada"]
    assert len(rows["library.star"]) == 1
    assert rows["api.token"][0]["name"] == "script"
    assert "hash" not in kept.content.decode()
    assert secret not in kept.content.decode()
    client.post("/account/", {"delete": "wrong"})
    assert User.objects.filter(username="ada").exists()
    gone = client.post("/account/", {"delete": "ada"}, follow=True)
    assert "Your account and all its data are deleted." in gone.content.decode()
    assert not User.objects.filter(username="ada").exists()
    assert list(Profile.objects.values_list("slug", flat=True)) == ["of-other"]
    assert Star.objects.get().reader == other
    assert client.get("/account/").status_code == 302
    assert not Run.objects.exists()


def test_the_only_administrator_stays(client: Client, admin: User) -> None:
    client.post("/account/", {"delete": admin.username})
    assert User.objects.filter(pk=admin.pk).exists()


def test_first_steps_make_a_profile_and_learn_from_papers(client: Client) -> None:
    ada = factories.make_reader("ada")
    client.force_login(ada)
    factories.make_day(12)
    wrong = client.post("/first-steps/", {"categories": "nowhere", "interests": ""})
    assert wrong.status_code == 422
    announce(MONDAY, paper(99))
    asked = {"categories": "cs.LG cs.CL", "interests": "sparse", "preview": "1"}
    page = client.post("/first-steps/", asked).content.decode()
    assert "Effect on recent days" in page
    assert 'class="come"' in page
    assert not Profile.objects.filter(owner=ada).exists()
    liked = " ".join(f"2603.{n:05d}" for n in range(1, 6))
    done = client.post(
        "/first-steps/", {"categories": "cs.LG cs.CL", "interests": f"sparse\n{liked}"}
    )
    made = Profile.objects.get(owner=ada)
    assert done["Location"] == f"/p/{made.slug}/"
    assert made.ranking == "both"
    page = client.get(done["Location"]).content.decode()
    assert "Learned from 5 saved papers" in " ".join(page.split())
    alone = {"categories": "cs.LG", "interests": liked}
    client.post("/first-steps/", alone)
    assert Profile.objects.filter(owner=ada, ranking="learned").exists()


def test_signing_out_everywhere_else_ends_every_other_session_and_link(
    client: Client, admin: User
) -> None:
    laptop, other_reader = Client(), Client()
    laptop.force_login(admin)
    other_reader.force_login(factories.make_reader("ada"))
    unused = links.make_link(admin)
    theirs = links.make_link(User.objects.get(username="ada"))
    assert Client().post("/account/sign-out/")["Location"].startswith("/sign-in/")
    assert client.get("/account/sign-out/").status_code == 405
    before = client.cookies["sessionid"].value

    page = client.post("/account/sign-out/", follow=True)
    assert page.redirect_chain == [("/account/", 302)]
    assert "Every other browser is signed out." in page.content.decode()
    assert client.cookies["sessionid"].value != before  # it may have been stolen
    assert client.get("/account/").status_code == 200
    assert laptop.get("/account/")["Location"].startswith("/sign-in/")
    assert links.redeem(unused) is None
    assert other_reader.get("/account/").status_code == 200
    assert links.redeem(theirs)


def test_a_session_ends_thirty_days_after_the_sign_in_however_often_it_is_used(
    client: Client, admin: User
) -> None:
    ends = client.session.get_expiry_date()
    assert timedelta(days=29.9) < ends - timezone.now() < timedelta(days=30.1)
    [row] = Session.objects.all()
    Session.objects.update(expire_date=timezone.now() + timedelta(seconds=60))
    assert client.get("/account/").status_code == 200
    assert Session.objects.get(pk=row.pk).expire_date < timezone.now() + timedelta(days=1)
    Session.objects.update(expire_date=timezone.now())
    assert client.get("/account/")["Location"].startswith("/sign-in/")

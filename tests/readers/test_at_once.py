"""Requests at the same moment: an administrator always remains, and nobody meets an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client

from tests import factories
from webapp.catalog.models import MethodLink
from webapp.digests.models import Profile
from webapp.digests.profiles import validation, views
from webapp.pages import account
from webapp.readers import links

pytestmark = pytest.mark.django_db(transaction=True)


def administrators(*names: str) -> list[User]:
    return [User.objects.create_superuser(name) for name in names]


def remaining() -> int:
    return User.objects.filter(is_superuser=True, is_active=True).count()


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """Run each act in a thread with its own connection; return their results."""
    returned: list[Any] = [None] * len(acts)

    def run(place: int, act: Callable[[], Any]) -> None:
        try:
            returned[place] = act()
        finally:
            connection.close()

    threads = [Thread(target=run, args=one) for one in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return returned


def post(reader: User, path: str, data: dict[str, Any]) -> Callable[[], int]:
    client = Client(raise_request_exception=False)
    client.force_login(reader)
    return lambda: client.post(path, data).status_code


def both_wait(monkeypatch: pytest.MonkeyPatch, holder: Any, name: str) -> None:
    """Hold each caller of a function back until the other calls it, or for a moment."""
    meeting, called = Barrier(2), getattr(holder, name)

    def wait(*arguments: Any, **options: Any) -> Any:
        returned = called(*arguments, **options)
        with suppress(BrokenBarrierError):
            meeting.wait(1)
        return returned

    monkeypatch.setattr(holder, name, wait)


def test_two_who_delete_their_accounts_leave_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ada, eve = administrators("ada", "eve")
    both_wait(monkeypatch, links, "lock_administrators")
    both_wait(monkeypatch, account, "logout")
    codes = at_once(*(post(one, "/account/", {"delete": one.username}) for one in (ada, eve)))
    assert codes == [302, 302]
    assert remaining() == 1


def test_two_who_switch_each_other_off_leave_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ada, eve = administrators("ada", "eve")
    both_wait(monkeypatch, links, "lock_administrators")
    codes = at_once(
        post(ada, "/account/readers/", {"off": eve.pk}),
        post(eve, "/account/readers/", {"off": ada.pk}),
    )
    assert sorted(codes) == [200, 403]
    assert remaining() == 1


def test_one_who_leaves_while_the_other_switches_them_off(monkeypatch: pytest.MonkeyPatch) -> None:
    ada, eve = administrators("ada", "eve")
    both_wait(monkeypatch, links, "lock_administrators")
    codes = at_once(
        post(ada, "/account/", {"delete": "ada"}),
        post(eve, "/account/readers/", {"off": ada.pk}),
        post(ada, "/account/", {"delete": "ada"}),
    )
    assert max(codes) < 500
    assert remaining() == 1


def test_a_button_pressed_by_two_does_what_it_says() -> None:
    ada, eve = administrators("ada", "eve")
    guest = factories.make_reader("guest")
    switch = {"off": guest.pk}
    assert at_once(*(post(one, "/account/readers/", switch) for one in (ada, eve))) == [200, 200]
    guest.refresh_from_db()
    assert not guest.is_active


def test_two_who_take_each_others_rights_in_the_admin_leave_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ada, eve = administrators("ada", "eve")
    both_wait(monkeypatch, links, "lock_administrators")
    form = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_staff": "on"}
    codes = at_once(
        *(
            post(one, f"/admin/auth/user/{other.pk}/change/", {"username": other.username, **form})
            for one, other in ((ada, eve), (eve, ada))
        )
    )
    assert sorted(codes) in ([200, 302], [302, 403])
    assert remaining() == 1


def test_two_who_delete_all_in_the_admin_leave_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ada, eve = administrators("ada", "eve")
    both_wait(monkeypatch, links, "lock_administrators")
    act = {"action": "delete_selected", "post": "yes"}
    codes = at_once(
        post(ada, "/admin/auth/user/", {**act, "_selected_action": [eve.pk]}),
        post(eve, "/admin/auth/user/", {**act, "_selected_action": [ada.pk]}),
    )
    assert max(codes) < 500
    assert remaining() == 1


def test_the_only_administrator_stays_in_the_admin() -> None:
    (ada,) = administrators("ada")
    guest = factories.make_reader("guest")
    client = Client()
    client.force_login(ada)
    form = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_staff": "on"}
    page = client.post(f"/admin/auth/user/{ada.pk}/change/", {"username": "ada", **form})
    assert "This is the only administrator." in page.content.decode()
    page = client.post(f"/admin/auth/user/{ada.pk}/delete/", {"post": "yes"})
    assert "This is the only administrator." in page.content.decode()
    act = {"action": "delete_selected", "post": "yes"}
    chosen = {"_selected_action": [ada.pk, guest.pk]}
    page = client.post("/admin/auth/user/", {**act, **chosen})
    assert "This is the only administrator." in page.content.decode()
    assert remaining() == 1
    client.post("/admin/auth/user/", {**act, "_selected_action": [guest.pk]})
    assert not User.objects.filter(pk=guest.pk).exists()


def test_two_invitations_of_one_name_make_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    ada, eve = administrators("ada", "eve")
    both_wait(monkeypatch, User, "full_clean")
    asked = {"name": "guest"}
    assert at_once(*(post(one, "/account/readers/", asked) for one in (ada, eve))) == [200, 200]
    assert User.objects.filter(username="guest").count() == 1
    assert User.objects.get(username="guest").signinlink_set.count() == 1


@pytest.mark.parametrize("gone", [False, True])
def test_two_who_judge_one_link(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, eve = administrators("ada", "eve")
    link = MethodLink.objects.create(
        paper=factories.make_paper(1), method="sparse_attention", relation="about"
    )
    both_wait(monkeypatch, MethodLink, "from_db")
    acts = [
        post(one, f"/papers/{link.paper.arxiv_id}/methods/sparse_attention/", {"about": word})
        for one, word in ((ada, "yes"), (eve, "no"))
    ]
    if gone:
        acts[1] = lambda: MethodLink.objects.filter(pk=MethodLink.objects.get().pk).delete()[0]
    assert at_once(*acts)[0] in {302, 404}
    assert gone or MethodLink.objects.get().confirmed is not None


@pytest.mark.parametrize("readers", [1, 2])
def test_imports_at_once_make_one_feed_for_each_reader(
    monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    ada, eve = (User.objects.create_user(name) for name in ("ada", "eve"))
    both_wait(monkeypatch, validation, "free_slug")
    config = json.dumps({"categories": ["cs.CL"], "keywords": ["attention"]}).encode()
    of_whom = (ada, ada) if readers == 1 else (ada, eve)
    acts = [
        post(one, "/feeds/import/", {"config": SimpleUploadedFile("config.json", config)})
        for one in of_whom
    ]
    assert at_once(*acts) == [302, 302]
    assert Profile.objects.filter(owner=ada).count() == 1
    assert Profile.objects.filter(owner=eve).count() == readers - 1


def test_the_limit_of_feeds_holds_for_imports_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ada = User.objects.create_user("ada")
    monkeypatch.setattr(views, "MAX_PROFILES", 1)
    both_wait(monkeypatch, validation, "free_slug")
    configs = (
        json.dumps({"categories": ["cs.CL"], "keywords": [word]}).encode()
        for word in ("attention", "pruning")
    )
    acts = [
        post(ada, "/feeds/import/", {"config": SimpleUploadedFile("config.json", config)})
        for config in configs
    ]
    assert at_once(*acts) == [302, 302]
    assert Profile.objects.filter(owner=ada).count() == 1

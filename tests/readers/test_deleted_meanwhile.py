"""An account that is deleted while a request of its reader is under way: no error, nothing kept."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests import factories
from webapp.api import tokens
from webapp.library import views
from webapp.library.models import LibraryEntry, Star
from webapp.runs import submit
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def reader() -> User:
    factories.make_paper(0)
    return User.objects.create_user("ada")


@pytest.fixture
def leaves(monkeypatch: pytest.MonkeyPatch, reader: User) -> None:
    """The reader's account goes after a request is authenticated, before it writes."""
    spend = tokens.spend
    for holder, name in ((views, "find_paper"), (tokens, "spend"), (submit, "_queue")):
        original = getattr(holder, name)

        def leave(*args: Any, original: Any = original) -> Any:
            if original is spend:  # which writes, and is the last before the view
                spend(*args)
            User.objects.filter(pk=reader.pk).delete()
            return original is spend or original(*args)

        monkeypatch.setattr(holder, name, leave)


@pytest.mark.usefixtures("leaves")
@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/star/", {"paper": "2603.00000"}),
        ("/methods/seps/run/cost/", {"preset": "quick", "seed": "0", "device": "cpu"}),
    ],
)
def test_a_page_asks_to_sign_in(reader: User, path: str, sent: dict[str, str]) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(reader)
    answer = client.post(path, sent)
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in/")
    assert not Star.objects.exists()
    assert not Run.objects.exists()


@pytest.mark.usefixtures("leaves")
def test_a_program_gets_401(reader: User) -> None:
    token = tokens.make(reader, "script", ["library", "runs"])
    client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {token}"})
    answer = client.patch(
        "/api/v1/library/2603.00000", {"note": "a"}, content_type="application/json"
    )
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert not LibraryEntry.objects.exists()


def test_an_error_met_by_a_reader_who_exists_stays_a_500(
    monkeypatch: pytest.MonkeyPatch, reader: User
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(views, "find_paper", fail)
    client = Client(raise_request_exception=False)
    client.force_login(reader)
    assert client.post("/star/", {"paper": "2603.00000"}).status_code == 500

"""An account that is deleted while a request of its reader is under way: no error, nothing kept."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests import factories
from webapp.api import reading, tokens
from webapp.digests import views
from webapp.digests.models import Star
from webapp.library.models import LibraryEntry
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
    for holder, name in ((views, "find_paper"), (reading, "find_paper"), (submit, "_queue")):
        original = getattr(holder, name)

        def leave(*args: Any, original: Any = original) -> Any:
            User.objects.filter(pk=reader.pk).delete()
            return original(*args)

        monkeypatch.setattr(holder, name, leave)


@pytest.mark.usefixtures("leaves")
@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/star/", {"paper": "2603.00000"}),
        ("/methods/seps/run/cost/", {"preset": "smoke", "seed": "0", "device": "cpu"}),
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

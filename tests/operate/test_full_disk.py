"""A database that takes no more: pages go on, what would write says so, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.contrib.auth.models import User
from django.db import InternalError, OperationalError, connection
from django.test import Client, RequestFactory
from django.urls import reverse
from psycopg.errors import CannotConnectNow, DiskFull, ReadOnlySqlTransaction

from tests import factories
from webapp.api import tokens
from webapp.operate.views import server_error
from webapp.readers import links
from webapp.readers.models import SignInLink
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def readers() -> list[User]:
    """So many that what they ask for does not fit into the pages that are there."""
    factories.make_paper(0)
    return [User.objects.create_user(f"reader-{number}") for number in range(20)]


@pytest.fixture
def full(readers: list[User]) -> Iterator[None]:
    """SQLite's own limit stands for the disk's: the same error from the same call."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has no limit to set: tests/faults/test_full_postgresql.py")
    with connection.cursor() as cursor:
        # Free pages would be used before the file grows.
        cursor.execute("VACUUM")
        cursor.execute("CREATE TABLE ballast (words TEXT)")
        (pages,) = cursor.execute("PRAGMA page_count").fetchone()
        cursor.execute(f"PRAGMA max_page_count={pages}")
        with suppress(OperationalError):
            while True:
                cursor.execute("INSERT INTO ballast VALUES (hex(randomblob(200)))")
        yield
        cursor.execute("PRAGMA max_page_count=1073741823")
        cursor.execute("DROP TABLE ballast")


WANTED = {"method": "sparse_attention", "benchmark": "latency"}


def test_the_api_says_so(readers: list[User], request: pytest.FixtureRequest) -> None:
    headers = [{"Authorization": f"Bearer {tokens.make(one, 'tests')}"} for one in readers]
    request.getfixturevalue("full")
    client = Client(raise_request_exception=False)
    answers = [
        client.post("/api/v1/runs", WANTED, "application/json", headers=header)
        for header in headers * 3
    ]
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused, {answer.status_code for answer in answers}
    assert refused[0]["Content-Type"] == "application/problem+json"
    assert refused[0].json()["detail"] == "The disk is full, so nothing was changed."
    assert refused[0]["Retry-After"] == "60"
    assert Run.objects.count() == sum(answer.status_code == 202 for answer in answers)
    assert client.get("/api/v1/runs").status_code == 200


def test_pages_say_so(readers: list[User], request: pytest.FixtureRequest) -> None:
    made = [links.make_link(reader) for reader in readers * 5]
    request.getfixturevalue("full")
    client = Client(raise_request_exception=False)
    answers = [client.post(reverse("readers:use-link", args=[link])) for link in made]
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused, {answer.status_code for answer in answers}
    assert "The disk is full, so nothing was changed." in refused[0].content.decode()
    for page in ("/", "/methods/", "/runs/"):
        assert Client().get(page).status_code == 200
    signed_in = sum(answer.status_code == 302 for answer in answers)
    assert SignInLink.objects.exclude(used_at=None).count() == signed_in, "no link is lost"


def test_a_database_that_may_only_be_read_says_so(readers: list[User]) -> None:
    """As on a disk that its errors closed, or after a chmod: SQLite's own word for it."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL says it by a number: the test below")
    link = links.make_link(readers[0])
    client = Client(raise_request_exception=False)
    connection.cursor().execute("PRAGMA query_only=ON")
    try:
        answer = client.post(reverse("readers:use-link", args=[link]))
    finally:
        connection.cursor().execute("PRAGMA query_only=OFF")
    assert answer.status_code == 503
    assert "The disk cannot be written to, so nothing was changed." in answer.content.decode()
    assert client.post(reverse("readers:use-link", args=[link])).status_code == 302


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        (
            OperationalError,
            DiskFull("Auf dem Gerät ist kein Speicherplatz mehr verfügbar"),
            "The disk is full",
        ),
        (
            InternalError,
            ReadOnlySqlTransaction("INSERT ist in einer Nur-Lese-Transaktion unzulässig"),
            "The disk cannot be written to",
        ),
        (OperationalError, OSError("disk I/O error"), "The disk cannot be written to"),
        (
            OperationalError,
            CannotConnectNow("Das Datenbanksystem startet"),
            "The database does not answer",
        ),
    ],
)
def test_whatever_language_the_database_speaks(
    kind: type[Exception], error: Exception, words: str, rf: RequestFactory
) -> None:
    try:
        raise kind(str(error)) from error
    except kind:
        answer = server_error(rf.get("/"))
    assert (answer.status_code, answer.reason_phrase) == (503, f"{words}, so nothing was changed")
    page = answer.content.decode()
    assert f"{words}, so nothing was changed." in " ".join(page.split())
    assert ("You can still read everything" in page) == words.startswith("The disk")


def test_what_is_our_own_fault_is_no_503(rf: RequestFactory) -> None:
    for error in (InternalError("current transaction is aborted"), ValueError("is full")):
        try:
            raise error
        except Exception:
            answer = server_error(rf.get("/"))
        assert (answer.status_code, answer.reason_phrase) == (500, "Internal Server Error")

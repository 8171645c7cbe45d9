"""The feed of results asks no more of the database for more runs, and keeps no name that went."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests import factories
from tests.runs import scenes

pytestmark = pytest.mark.django_db


def queries(client: Client) -> int:
    with CaptureQueriesContext(connection) as asked:
        assert client.get("/runs.rss").content.count(b"<item>")
    return len(asked)


def test_queries_do_not_grow_with_the_runs(client: Client) -> None:
    scenes.measured()
    one = queries(client)
    for _ in range(6):
        scenes.measured()
    assert queries(client) == one <= 4


def test_who_deletes_their_account_is_named_no_more(client: Client) -> None:
    reader = factories.make_reader("lovelace")
    scenes.measured(reader)
    assert "lovelace" in client.get("/runs.rss").content.decode()
    reader.delete()
    assert "lovelace" not in client.get("/runs.rss").content.decode()

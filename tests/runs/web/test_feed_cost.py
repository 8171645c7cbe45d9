"""The feed of results asks no more of the database for more runs."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

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

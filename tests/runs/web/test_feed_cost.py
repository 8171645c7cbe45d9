"""The feed of results asks no more of the database for more runs, and keeps no name that went."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests import factories
from tests.runs import scenes
from webapp.runs.web import views
from webapp.runs.web.listing import listed_run

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
    assert queries(client) == one <= 5


def test_who_deletes_their_account_is_named_no_more(client: Client) -> None:
    reader = factories.make_reader("lovelace")
    scenes.measured(reader)
    assert "lovelace" in client.get("/runs.rss").content.decode()
    reader.delete()
    assert "lovelace" not in client.get("/runs.rss").content.decode()


def test_a_kept_item_follows_its_reader_and_its_series(client: Client) -> None:
    run = scenes.measured(factories.make_reader("lovelace"))
    assert "lovelace" in client.get("/runs.rss").content.decode()
    User.objects.filter(username="lovelace").update(username="hopper")
    body = client.get("/runs.rss").content.decode()
    assert "hopper" in body
    run.series.all().delete()
    assert client.get("/runs.rss").content.decode() != body


def test_of_a_feed_that_changed_only_the_new_run_is_read(client: Client) -> None:
    scenes.measured()
    assert client.get("/runs.rss").content.count(b"<item>") == 1
    scenes.measured()
    read = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "listed_run", lambda run: read.append(run.pk) or listed_run(run))
        body = client.get("/runs.rss").content
    assert (body.count(b"<item>"), len(read)) == (2, 1)

"""Strangers who ask for links without end fill no broker: over a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from celery import Celery
from django.test import Client

from tests.mail.conftest import Inbox
from tests.mail.conftest import inbox as inbox  # noqa: PLC0414 - a fixture
from webapp.core import tasks
from webapp.readers import views

pytestmark = pytest.mark.django_db

ASKED = {"address": "nobody@home.example"}


@pytest.fixture
def queue(redis_url: str, settings: Any) -> Iterator[Celery]:
    """The site's own end of a broker whose database nobody else uses."""
    address = redis_url.removesuffix("/0") + "/9"
    settings.CELERY_BROKER_URL = address
    tasks.app.cache_clear()
    made = tasks.app()
    purge(made)
    yield made
    settings.CELERY_BROKER_URL = address
    purge(made)
    made.close()
    tasks.app.cache_clear()


def purge(app: Celery) -> int:
    with app.connection_for_write() as connection:
        return connection.default_channel.queue_purge("quick")


def test_a_full_queue_takes_no_more_and_says_so(
    client: Client,
    inbox: Inbox,
    queue: Celery,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(views, "MOST_WAITING", 5)
    pages = [client.post("/sign-in/", ASKED).content.decode() for _ in range(7)]
    assert ["Check your mail" in page for page in pages] == [True] * 5 + [False] * 2
    assert all("No link can be mailed right now" in page for page in pages[5:])
    assert caplog.text.count("Queue full, a sign-in link is not mailed: 5 tasks wait already") == 2
    assert tasks.send("site.learn", [1], lost="nothing")  # what readers cause goes on
    assert purge(queue) == 6
    assert "Check your mail" in client.post("/sign-in/", ASKED).content.decode()


def test_many_at_once_pass_the_bound_by_no_more_than_they_are(queue: Celery) -> None:
    def ask(_: int) -> bool:
        return tasks.send_if_room("site.mail_link", ["a@b.c"], 20, lost="a link")

    with ThreadPoolExecutor(4) as threads:
        sent = sum(threads.map(ask, range(100)))
    assert 20 <= sent < 20 + 4
    assert purge(queue) == sent


def test_a_broker_that_came_back_is_asked_again_and_one_away_is_told(
    queue: Celery, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert tasks.send_if_room("site.mail_link", ["a@b.c"], 20, lost="a link")
    with queue.connection_for_write() as connection:  # as a Redis that was started again does
        redis = connection.default_channel.client
        for one in redis.client_list():
            if one["db"] == "9" and int(one["id"]) != redis.client_id():
                redis.client_kill_filter(_id=one["id"])
    assert tasks.send_if_room("site.mail_link", ["a@b.c"], 20, lost="a link")
    assert purge(queue) == 2
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    tasks.app.cache_clear()
    assert not tasks.send_if_room("site.mail_link", ["a@b.c"], 20, lost="a link")
    assert "Broker unreachable, a link" in caplog.text

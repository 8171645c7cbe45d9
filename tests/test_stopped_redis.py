"""A Redis that has stopped, but holds its connections, keeps no reader waiting."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from assay_common.redis_broker import socket_path
from tests import factories
from tests.runs.rig import Redis
from webapp.core import limits, tasks
from webapp.library.models import Star

pytestmark = pytest.mark.django_db(transaction=True)  # messages are sent after a commit
SECONDS = 30.0  # for a request that waits for Redis twice; a frozen one is never answered


@pytest.fixture
def stopped(tmp_path: Path, settings: Any) -> Iterator[None]:
    redis = Redis(tmp_path)
    redis.start()
    settings.CELERY_BROKER_URL = f"redis+socket://{socket_path(tmp_path)}"
    tasks.app.cache_clear()
    assert redis.process
    assert tasks.send("site.learn", [0], lost="nothing"), "connected, as after a morning of work"
    os.kill(redis.process.pid, signal.SIGSTOP)
    yield
    os.kill(redis.process.pid, signal.SIGCONT)
    redis.kill()
    tasks.app.cache_clear()
    limits._Away.until = 0.0


def test_a_redis_that_has_stopped_keeps_no_reader_waiting(stopped: None, client: Client) -> None:
    reader = factories.make_reader("patient")
    paper = factories.make_paper(1)
    client.force_login(reader)
    for send in (
        lambda: client.get("/search?q=sparse"),
        lambda: client.post("/star/", {"paper": paper.arxiv_id}),
        lambda: client.get("/readyz"),
    ):
        began = time.monotonic()
        send()
        assert time.monotonic() - began < SECONDS
    assert Star.objects.filter(reader=reader, paper=paper).exists()
    assert client.get("/readyz").status_code == 503

"""A queue on which a long task runs is heard of, until its worker is killed."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from tests.processes import FOREVER, PATIENCE, forked, wait_for
from webapp.operate.models import Heartbeat
from workers.site import queue_health

SILENCE = timedelta(seconds=4)
ASKED = SimpleNamespace(delivery_info={"routing_key": "q"})
LONG = SimpleNamespace(name="site.link", request=ASKED)


def heard() -> bool:
    return Heartbeat.objects.filter(name="q", at__gt=timezone.now() - SILENCE).exists()


@pytest.mark.django_db(transaction=True)
def test_a_long_task_is_heard_of_until_its_worker_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_health, "QUEUE_SILENCE", SILENCE)

    def work() -> None:
        queue_health._begin(LONG)
        time.sleep(FOREVER)

    worker = forked(work)
    began = wait_for(Heartbeat.objects.filter(name="q").first, "that it has begun").at
    later = Heartbeat.objects.filter(name="q", at__gt=began + SILENCE)
    wait_for(later.exists, "a sign of life after the silence that it may keep")
    worker.kill()
    worker.join()
    wait_for(lambda: not heard(), "its silence")


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_long_task_is_heard_of_and_nothing_after_it() -> None:
    before = set(threading.enumerate())
    queue_health._begin(LONG)
    (heart,) = set(threading.enumerate()) - before
    began = Heartbeat.objects.get(name="q").at
    queue_health._end()
    assert began < Heartbeat.objects.get(name="q").at
    heart.join(PATIENCE)
    assert not heart.is_alive()

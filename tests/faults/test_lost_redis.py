"""While Redis is away, each process logs one line, and one more when it is back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_for
from tests.runs.rig import Rig, standing
from webapp.operate.models import Heartbeat

pytestmark = pytest.mark.slow


def test_an_outage_of_redis_is_two_lines(
    tmp_path: Path, django_db_setup: None, django_db_blocker: Any
) -> None:
    with django_db_blocker.unblock(), standing(Rig(tmp_path)) as rig:
        rig.recorder()
        rig.beat()
        logs = {name: tmp_path / f"{name}.log" for name in ("recorder", "beat")}
        wait_for(lambda: "Connected to" in logs["recorder"].read_text(), "the worker")
        wait_for(lambda: Heartbeat.objects.filter(kind="beat").exists(), "the beat")
        rig.redis.kill()
        for log in logs.values():
            wait_for(lambda log=log: "Redis does not answer" in log.read_text(), "a line")
        time.sleep(6)
        rig.redis.start()
        for name, log in logs.items():
            wait_for(lambda log=log: "Redis answers again" in log.read_text(), "its return")
            text = log.read_text()
            assert text.count("Redis does not answer") == 1, name
            assert "Traceback" not in text, name
            assert "Frequent restarts" not in text, name

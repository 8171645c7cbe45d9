from __future__ import annotations

import workers.site.tasks  # noqa: F401
from workers.site.app import app


def test_every_tick_is_a_task_and_expires_just_before_the_next() -> None:
    assert {"poll", "enrich"} <= app.conf.beat_schedule.keys()
    for entry in app.conf.beat_schedule.values():
        assert entry["task"] in app.tasks
        assert 0 < entry["schedule"] - entry["options"]["expires"] <= 30

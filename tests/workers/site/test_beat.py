from __future__ import annotations

from workers.site.app import app


def test_every_tick_is_a_task_and_expires_just_before_the_next() -> None:
    app.loader.import_default_modules()  # as a worker does
    assert {"poll", "enrich"} <= app.conf.beat_schedule.keys()
    for entry in app.conf.beat_schedule.values():
        assert entry["task"] in app.tasks
        assert 0 < entry["schedule"] - entry["options"]["expires"] <= 30

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from workers.site import beat
from workers.site.app import app


def test_every_tick_is_a_task_and_expires_just_before_the_next() -> None:
    app.loader.import_default_modules()  # as a worker does
    assert {"poll", "enrich"} <= app.conf.beat_schedule.keys()
    for entry in app.conf.beat_schedule.values():
        assert entry["task"] in app.tasks
        assert 0 < entry["schedule"] - entry["options"]["expires"] <= 30


def test_a_queue_that_nobody_works_on_before_a_model_is_there_gets_no_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: set[str] = set()
    monkeypatch.setattr(
        beat.beat.Scheduler, "apply_entry", lambda _, entry, _producer: sent.add(entry.name)
    )
    scheduler = beat.Scheduler(app=app)
    for model in ("", "small"):
        monkeypatch.setenv("ASSAY_SUMMARY_MODEL", model)
        sent.clear()
        for entry in scheduler.schedule.values():
            scheduler.apply_entry(entry)
        assert {"token quick", "token bulk", "token arxiv", "token mail", "token events"} <= sent
        assert ("token summaries" in sent) == bool(model)


def test_a_clock_that_was_set_back_silences_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Celery's own dates nothing would be due for the hour that the clock went back."""
    monkeypatch.setattr(beat, "_store_heartbeat", lambda: None)
    monkeypatch.setattr(beat.Scheduler, "producer", None)
    sent: list[str] = []
    monkeypatch.setattr(
        beat.Scheduler, "apply_entry", lambda _, entry, **__: sent.append(entry.task)
    )
    scheduler = beat.Scheduler(app=app)
    while scheduler.tick() == 0:
        pass
    assert "runs.sweep" in sent
    sent.clear()
    # As if all this had been an hour later: the dates of the schedule, and that of the last tick.
    hour = timedelta(hours=1)
    for entry in scheduler.schedule.values():
        entry.last_run_at += hour
    scheduler._heap = [event._replace(time=event.time + 3600) for event in scheduler._heap]
    scheduler._last_tick = time.time() + 3600
    while scheduler.tick() == 0:
        pass
    assert "runs.sweep" in sent

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from celery.schedules import schedule

from tests.processes import forked
from tests.runs import saying
from webapp.operate.heartbeats import QUEUE_SILENCE
from webapp.runs import redis_users
from workers.site import beat
from workers.site.app import app


def test_every_tick_is_a_task_and_expires_just_before_the_next() -> None:
    app.loader.import_default_modules()  # as a worker does
    assert {"poll", "enrich"} <= app.conf.beat_schedule.keys()
    for entry in app.conf.beat_schedule.values():
        assert entry["task"] in app.tasks
        assert 0 < entry["schedule"] - entry["options"]["expires"] <= 30


@pytest.mark.django_db
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
        assert ({"token summaries", "summarise"} & sent) == (
            {"token summaries", "summarise"} if model else set()
        )


@pytest.mark.django_db
def test_no_sweep_is_sent_while_no_run_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(
        beat.beat.Scheduler, "apply_entry", lambda _, entry, _producer: sent.append(entry.task)
    )
    monkeypatch.setattr(redis_users, "are_kept", lambda: False)
    scheduler = beat.Scheduler(app=app)
    scheduler.apply_entry(scheduler.schedule["sweep"])
    assert sent == []
    run = saying.queued()
    scheduler.apply_entry(scheduler.schedule["sweep"])
    assert sent == ["runs.sweep"]
    run.delete()
    scheduler.apply_entry(scheduler.schedule["sweep"])
    assert sent == ["runs.sweep"]
    monkeypatch.setattr(redis_users, "are_kept", lambda: True)
    scheduler.apply_entry(scheduler.schedule["sweep"])
    assert sent == ["runs.sweep"] * 2


def test_a_queue_is_down_after_two_lost_tokens_and_not_one() -> None:
    for name, entry in app.conf.beat_schedule.items():
        if name.startswith("token "):
            assert 2 < QUEUE_SILENCE.total_seconds() / entry["schedule"] <= 3


def test_a_beat_that_fails_ends_its_process() -> None:
    def work() -> None:
        beat.Scheduler.tick = lambda _: 1 / 0  # type: ignore[method-assign]
        beat.start_beside_worker()
        time.sleep(3600)

    process = forked(work)
    process.join()
    assert process.exitcode == 1


def test_a_task_is_sent_at_the_first_look_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery looks 10 ms before, and then without a pause: most of what the site took at rest."""
    monkeypatch.setattr(beat, "_store_heartbeat", lambda: None)
    monkeypatch.setattr(beat.Scheduler, "producer", None)
    sent: list[str] = []
    monkeypatch.setattr(
        beat.Scheduler, "apply_entry", lambda _, entry, **__: sent.append(entry.task)
    )
    scheduler = beat.Scheduler(app=app)
    sweep = scheduler.schedule["sweep"]
    sweep.schedule = schedule(timedelta(seconds=0.3))
    scheduler.schedule.clear()
    scheduler.schedule["sweep"] = sweep
    looks = 0
    while len(sent) < 4:
        time.sleep(scheduler.tick())
        looks += 1
    assert looks <= 2 * 4


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

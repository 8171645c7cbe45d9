"""Retention of ended runs: logs and standing results stay, the rest for a time."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.utils import timezone
from pytest_django import Settings

from methods import registry
from tests.runs import scenes
from webapp.runs.models import Event, Run, RunLog
from webapp.runs.queries import log_of
from webapp.runs.retention import tidy

pytestmark = pytest.mark.django_db


def ended(days: float = 1, preset: str = "smoke") -> Run:
    _, benchmark = registry.find(f"{scenes.METHOD}.{scenes.BENCHMARK}")
    params = benchmark.resolve(preset).model_dump(mode="json")
    run = scenes.measured(preset=preset, params=params)
    then = timezone.now() - timedelta(days=days)
    Run.objects.filter(pk=run.pk).update(
        queued_at=then, started_at=then, finished_at=then, log_bytes=22
    )
    Event.objects.filter(run=run, kind="log").delete()
    for seq, text in enumerate(("warming up\n", "measured\n")):
        body = {"offset": 11 * seq, "size": len(text), "text": text}
        Event.objects.create(
            run=run, token=run.token, seq=900 + seq, kind="log", body=body, recorded_at=then
        )
    run.refresh_from_db()
    return run


def test_a_log_becomes_one_piece_and_loses_no_word() -> None:
    run = ended()
    others = Event.objects.filter(run=run).exclude(kind="log").count()
    before = log_of(run)
    assert "warming up" in before
    assert tidy()[0] == 1
    assert log_of(run) == before
    assert not Event.objects.filter(run=run, kind="log").exists()
    assert Event.objects.filter(run=run).count() == others
    assert tidy()[0] == 0
    assert RunLog.objects.count() == 1


def test_the_log_of_a_run_that_just_ended_may_still_grow() -> None:
    run = ended(days=0)
    assert tidy()[0] == 0
    assert Event.objects.filter(run=run, kind="log").count() == 2


def test_old_runs_go_but_not_what_stands(settings: Settings) -> None:
    stands = ended(days=400, preset="full")
    old, new = ended(days=400), ended(days=3)
    published = ended(days=400)
    Run.objects.filter(pk=published.pk).update(imported=True)
    assert tidy()[1] == 0, "kept for ever unless told otherwise"
    settings.RUNS_KEPT_DAYS = 100
    assert tidy()[1] == 1
    assert set(Run.objects.values_list("pk", flat=True)) == {stands.pk, new.pk, published.pk}
    assert not Event.objects.filter(run_id=old.pk).exists()


def test_the_command_forgets_sessions_that_expired() -> None:
    now = timezone.now()
    for key, until in (("old", now - timedelta(days=1)), ("new", now + timedelta(days=1))):
        Session.objects.create(session_key=key, session_data="", expire_date=until)
    told = StringIO()
    call_command("tidy", stdout=told)
    assert list(Session.objects.values_list("session_key", flat=True)) == ["new"]
    assert "0 logs compressed, 0 runs deleted" in told.getvalue()

"""Benchmarks that behave badly: the run says what happened and nothing is left behind."""

from __future__ import annotations

import re

import pytest
from django.db import transaction

from tests.processes import FOREVER, wait_for
from tests.runs.asking import ask, ended, measuring
from tests.runs.rig import Rig
from webapp.runs import submit
from webapp.runs.models import Run, State
from webapp.runs.queries import log_of
from webapp.runs.record import MAX_LOG_BYTES


@pytest.fixture(autouse=True)
def nothing_left(rig: Rig):
    yield
    wait_for(lambda: not rig.benchmarks(), "the end of every benchmark process")
    wait_for(lambda: not list(rig.data.glob("bench/*/run-*")), "no private directory")


def test_ignores_term(rig: Rig) -> None:
    run = measuring(ask("misbehave", how="ignores_term"))
    submit.cancel(run)
    ended(run)
    assert run.state == State.CANCELLED


def test_forks_grandchildren(rig: Rig) -> None:
    run = ended(ask("misbehave", how="forks_grandchildren"))
    assert run.state == State.SUCCEEDED, run.reason
    assert not rig.benchmarks(), "gone before the result was sent"


def test_fills_its_log(rig: Rig) -> None:
    run = ended(ask("misbehave", how="fills_log"))
    assert run.state == State.SUCCEEDED, run.reason
    text = log_of(run)
    assert run.log_bytes == len(text.encode()) <= MAX_LOG_BYTES
    assert "line 100 xxx" in text
    assert text.endswith("[The log ends here: a run may write one mebibyte.]\n")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)


def test_writes_garbage_between_events(rig: Rig) -> None:
    run = ended(ask("misbehave", how="writes_garbage"))
    assert run.state == State.SUCCEEDED, run.reason
    assert run.series.count() == 1
    assert "not json" in log_of(run)


def test_writes_an_endless_line(rig: Rig) -> None:
    run = ended(ask("misbehave", how="endless_line"))
    assert run.state == State.SUCCEEDED, run.reason


@pytest.mark.parametrize(
    ("how", "failure", "said"),
    [
        ("exits_silently", "error", "without a result"),
        ("eats_memory", "memory", "memory|allocate|MemoryError"),
        ("raises", "error", "ArithmeticError"),
        ("crashes", "error", "SIGSEGV"),
        ("sends_too_much", "error", "more than a run may hold"),
        ("claims_another_check", "error", "not of what it had sent"),
    ],
)
def test_fails(rig: Rig, how: str, failure: str, said: str) -> None:
    run = ended(ask("misbehave", how=how))
    assert (run.state, run.failure, run.attempt) == (State.FAILED, failure, 1), run.reason
    assert re.search(said, run.reason)
    assert run.result is None


def test_shows_no_secret(rig: Rig) -> None:
    run = ended(ask("misbehave", how="prints_environment"))
    assert run.state == State.SUCCEEDED, run.reason
    seen = log_of(run)
    assert "HF_HUB_OFFLINE=1" in seen, "it did print its environment"
    secrets = {
        rig.environment["ASSAY_SECRET_KEY"],
        rig.key("one"),
        "CELERY_BROKER_URL",
        str(rig.data / "redis"),
        "ASSAY_WORKER_KEY",
        "DATABASE_URL",
        run.token,
    }
    assert [secret for secret in secrets if secret in seen] == []


def ask_changed(**fields: object) -> Run:
    """A run that no form would have let through."""
    with transaction.atomic():
        run = ask(seconds=FOREVER)
        Run.objects.filter(pk=run.pk).update(**fields)
    return run


def test_runs_past_its_limit(rig: Rig) -> None:
    run = ended(ask_changed(limit_seconds=3))
    assert (run.state, run.attempt) == (State.TIMED_OUT, 1)
    assert "3 s" in run.reason


def test_parameters_the_worker_refuses(rig: Rig) -> None:
    """Validated again where they are used, as if nobody had before."""
    run = ended(ask_changed(params={"seconds": 1, "path": "/etc/passwd"}))
    assert (run.state, run.failure) == (State.FAILED, "input")
    assert "path" in run.reason


def test_another_version_of_the_benchmark(rig: Rig) -> None:
    run = ended(ask_changed(version=9))
    assert (run.state, run.failure) == (State.FAILED, "input")
    assert "version 9" in run.reason

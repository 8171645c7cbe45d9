"""Health addresses, and what makes the site unready."""

import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from tests.processes import ROOT
from webapp.health.heartbeats import FORGET, sign
from webapp.health.models import Heartbeat

pytestmark = pytest.mark.django_db


def checks_of(client: Client) -> tuple[int, dict[str, dict[str, Any]]]:
    answer = client.get("/readyz")
    body = answer.json()
    assert body["ready"] is (answer.status_code == 200)
    return answer.status_code, {check["name"]: check for check in body["checks"]}


def everybody_is_alive() -> None:
    sign(Heartbeat.Kind.BEAT, "beat")
    sign(Heartbeat.Kind.WORKER, "site@here")


def test_healthz_asks_nothing(client: Client, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")
    assert "no-store" in answer["Cache-Control"]


def test_ready_when_all_hold(client: Client) -> None:
    everybody_is_alive()
    status, checks = checks_of(client)
    assert status == 200
    assert set(checks) == {"database", "broker", "beat", "workers"}
    assert "site@here" in checks["workers"]["detail"]


def test_unready_before_anybody_was_seen(client: Client) -> None:
    status, checks = checks_of(client)
    assert status == 503
    assert checks["database"]["ok"]
    assert checks["broker"]["ok"]
    assert checks["beat"]["detail"] == "the beat has not been seen"
    assert checks["workers"]["detail"] == "no site worker has been seen lately"


@pytest.mark.parametrize(("kind", "name"), [("beat", "beat"), ("worker", "workers")])
def test_unready_when_one_fell_silent(client: Client, kind: str, name: str) -> None:
    everybody_is_alive()
    Heartbeat.objects.filter(kind=kind).update(at=timezone.now() - timedelta(seconds=31))
    status, checks = checks_of(client)
    assert status == 503
    assert [key for key, check in checks.items() if not check["ok"]] == [name]


def test_unready_with_a_missing_migration(client: Client) -> None:
    everybody_is_alive()
    from django.db.migrations.recorder import MigrationRecorder

    MigrationRecorder.Migration.objects.filter(app="readers").delete()
    status, checks = checks_of(client)
    assert status == 503
    assert checks["database"]["detail"] == "1 migrations are missing"


def test_unready_when_the_broker_is_away(client: Client, settings: Any) -> None:
    everybody_is_alive()
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:9/0"
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {}
    status, checks = checks_of(client)
    assert status == 503
    assert checks["broker"]["detail"].startswith("redis does not answer")


def test_ready_with_redis(client: Client, settings: Any, redis_url: str) -> None:
    everybody_is_alive()
    settings.CELERY_BROKER_URL = redis_url
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {}
    status, checks = checks_of(client)
    assert status == 200
    assert checks["broker"]["detail"] == "redis"


def test_unready_without_a_database() -> None:
    code = """
import json, django
django.setup()
from webapp.health.checks import readiness
print(json.dumps([[check.name, check.ok] for check in readiness()]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={
            **os.environ,
            "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
        },
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == (
        '[["database", false], ["broker", true], ["beat", false], ["workers", false]]'
    ), done.stderr


def test_long_gone_processes_are_forgotten() -> None:
    everybody_is_alive()
    Heartbeat.objects.update(at=timezone.now() - FORGET - timedelta(minutes=1))
    sign(Heartbeat.Kind.WORKER, "site@new")
    assert [beat.name for beat in Heartbeat.objects.all()] == ["site@new"]


def test_metrics_are_prometheus_text(client: Client) -> None:
    everybody_is_alive()
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    families = {f.name: f for f in text_string_to_metric_families(answer.content.decode())}
    assert families["assay_papers"].samples[0].value == 0
    states = {sample.labels["state"] for sample in families["assay_listings"].samples}
    assert states == {"complete", "empty", "stale", "failed"}
    ages = families["assay_heartbeat_age_seconds"].samples
    assert {(age.labels["kind"], age.labels["name"]) for age in ages} == {
        ("beat", "beat"),
        ("worker", "site@here"),
    }


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_only_reading_is_allowed(client: Client, path: str) -> None:
    assert client.post(path).status_code == 405

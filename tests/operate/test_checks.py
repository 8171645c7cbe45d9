"""Health addresses, and what makes the site unready."""

import json
import os
import re
import subprocess
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from tests import forking
from tests.processes import ROOT
from tests.runs import saying
from webapp.operate.heartbeats import FORGET, store
from webapp.operate.models import Heartbeat

pytestmark = pytest.mark.django_db

ALWAYS = ("quick", "bulk", "arxiv", "mail", "events")  # queues that need no model


def checks_of(client: Client) -> tuple[int, dict[str, dict[str, Any]]]:
    answer = client.get("/readyz")
    body = answer.json()
    assert body["ready"] is (answer.status_code == 200)
    return answer.status_code, {check["name"]: check for check in body["checks"]}


def everybody_is_alive() -> None:
    store(Heartbeat.Kind.BEAT, "beat")
    for queue in ALWAYS:
        store(Heartbeat.Kind.QUEUE, queue)


def test_healthz_asks_nothing(client: Client, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok 0.1.0\n")
    assert "no-store" in answer["Cache-Control"]


@pytest.fixture(autouse=True)
def _redis(settings: Any, redis_url: str) -> None:
    settings.CELERY_BROKER_URL = redis_url


def test_ready_when_all_hold(client: Client) -> None:
    everybody_is_alive()
    status, checks = checks_of(client)
    assert status == 200
    assert list(checks) == [
        "database", "broker", "beat", *(f"queue {name}" for name in ALWAYS), "queue bench-cpu",
        "queue bench-gpu", "tasks", "links",
    ]  # fmt: skip


def test_unready_before_anything_answered(client: Client) -> None:
    status, checks = checks_of(client)
    assert status == 503
    assert checks["database"]["ok"]
    assert checks["broker"]["ok"]
    for name in ("beat", "queue quick", "queue events"):
        assert checks[name]["detail"] == "it has never answered"


@pytest.mark.parametrize(
    ("kind", "name", "check"),
    [
        ("beat", "beat", "beat"),
        ("queue", "quick", "queue quick"),
        ("queue", "events", "queue events"),
    ],
)
def test_unready_when_one_stops_answering(client: Client, kind: str, name: str, check: str) -> None:
    everybody_is_alive()
    silent = Heartbeat.objects.filter(kind=kind, name=name)
    silence = 30 if kind == "beat" else 90
    silent.update(at=timezone.now() - timedelta(seconds=silence + 1))
    status, checks = checks_of(client)
    assert status == 503
    assert [key for key, found in checks.items() if not found["ok"]] == [check]
    age = re.fullmatch(r"it last answered (\d+) s ago", checks[check]["detail"])
    assert age
    assert int(age[1]) > silence


def test_a_heartbeat_dated_by_a_clock_that_was_wrong_proves_nothing(client: Client) -> None:
    everybody_is_alive()
    Heartbeat.objects.filter(name="quick").update(at=timezone.now() + timedelta(hours=1))
    status, checks = checks_of(client)
    assert status == 503
    assert not checks["queue quick"]["ok"]


def test_the_queue_of_summaries_must_answer_where_a_model_is_set(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody_is_alive()
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "small")
    status, checks = checks_of(client)
    assert (status, checks["queue summaries"]["ok"]) == (503, False)
    store(Heartbeat.Kind.QUEUE, "summaries")
    assert checks_of(client)[0] == 200


def test_unready_when_a_job_waits_that_no_bench_worker_starts(client: Client) -> None:
    everybody_is_alive()
    saying.live_worker("one")
    run = saying.dispatched()
    run.dispatched_at = timezone.now() - timedelta(seconds=31)
    run.save()
    status, checks = checks_of(client)
    assert (status, checks["queue bench-cpu"]["detail"]) == (
        503,
        "1 jobs wait that no worker starts",
    )


def test_unready_with_a_missing_migration(client: Client) -> None:
    everybody_is_alive()
    from django.db.migrations.recorder import MigrationRecorder

    last = MigrationRecorder.Migration.objects.filter(app="digests").order_by("name").last()
    assert last is not None
    last.delete()
    status, checks = checks_of(client)
    assert status == 503
    assert checks["database"]["detail"] == "1 migrations are missing"


def test_strangers_are_told_no_address(client: Client, settings: Any) -> None:
    everybody_is_alive()
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:9/0"
    status, checks = checks_of(client)
    assert (status, checks["broker"]["detail"]) == (503, "Redis does not answer")
    assert "127.0.0.1" not in client.get("/readyz").content.decode()


@pytest.mark.parametrize(("setting", "value"), [("maxmemory", "1"), ("min-replicas-to-write", "1")])
def test_unready_while_redis_refuses_writes(
    client: Client, redis_url: str, setting: str, value: str
) -> None:
    everybody_is_alive()
    redis = Redis.from_url(redis_url)
    redis.config_set(setting, value)
    try:
        assert redis.ping()
        status, checks = checks_of(client)
    finally:
        redis.config_set(setting, "0")
    assert (status, checks["broker"]["detail"]) == (503, "Redis refuses writes")
    assert checks_of(client)[0] == 200


def test_unready_without_a_database() -> None:
    code = """
import json, django
django.setup()
from webapp.operate.checks import readiness
print(json.dumps([[check.name, check.ok, check.detail] for check in readiness()]))
"""
    done = subprocess.run(
        forking.program(code),
        cwd=ROOT,
        env={
            **os.environ,
            "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
        },
        capture_output=True,
        text=True,
    )
    found = {name: (ok, detail) for name, ok, detail in json.loads(done.stdout)}
    assert found["database"] == (False, "the database does not answer")
    assert not any(ok for ok, _ in found.values())
    assert "127.0.0.1" in done.stderr, "the log has it in full"
    assert "127.0.0.1" not in done.stdout


def test_long_gone_processes_are_forgotten() -> None:
    everybody_is_alive()
    Heartbeat.objects.update(at=timezone.now() - FORGET - timedelta(minutes=1))
    store(Heartbeat.Kind.QUEUE, "new")
    assert [beat.name for beat in Heartbeat.objects.all()] == ["new"]


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
        *(("queue", name) for name in ALWAYS),
    }


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_only_reading_is_allowed(client: Client, path: str) -> None:
    assert client.post(path).status_code == 405

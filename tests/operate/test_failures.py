"""Failures in the background are shown on pages until the task succeeds again."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

from tests import factories
from webapp.operate import failures
from webapp.operate.checks import readiness
from webapp.operate.models import Failure
from workers.site import tasks
from workers.site.app import app

pytestmark = pytest.mark.django_db(transaction=True)  # a task keeps connections as it will

WORDS = "No new papers since"
WHY = "Unicode normalization can only be performed if server encoding is UTF8"


@pytest.fixture(autouse=True)
def _redis(settings: Any, redis_url: str) -> None:
    settings.CELERY_BROKER_URL = redis_url
    app.loader.import_default_modules()


@pytest.fixture
def failing_poll(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The task that fetches, whose database refuses what came; then one that works."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise DatabaseError(WHY)

    monkeypatch.setattr(tasks.schedule, "due", lambda *_: ["cs.LG"])
    monkeypatch.setattr(tasks, "fetch", refuse)
    return monkeypatch


def run(name: str) -> None:
    app.tasks[name].apply(routing_key="arxiv")


def tasks_check() -> Any:
    return next(check for check in readiness() if check.name == "tasks")


def test_a_task_that_raises_is_seen_everywhere_until_it_succeeds(
    client: Client, failing_poll: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert WORDS not in client.get("/").content.decode()
    assert tasks_check().ok
    run("site.poll")
    first = Failure.objects.get()
    for path in ("/", "/intake/"):
        page = client.get(path).content.decode()
        assert WORDS in page
        assert f"{first.since:%Y-%m-%d %H:%M} UTC" in page
        assert WHY not in page  # what a database says is for the administrator
    assert not tasks_check().ok
    assert f"site.poll fails since {first.since:%Y-%m-%d %H:%M} UTC" in tasks_check().detail
    metrics = client.get("/metrics").content.decode()
    since = re.search(r'failing_since_timestamp_seconds{task="site.poll"} (\S+)', metrics)
    assert since
    assert float(since[1]) == pytest.approx(first.since.timestamp(), abs=1)
    assert client.get("/readyz").status_code == 503

    run("site.poll")
    again = Failure.objects.get()
    assert (again.since, again.times) == (first.since, 2)

    failing_poll.setattr(tasks.schedule, "due", lambda *_: [])
    run("site.poll")
    assert not Failure.objects.exists()
    assert WORDS not in client.get("/").content.decode()
    assert tasks_check().ok


def test_a_page_that_is_kept_is_made_anew(client: Client, failing_poll: Any) -> None:
    factories.make_day()
    for _ in range(2):
        assert WORDS not in client.get("/").content.decode()
    run("site.poll")
    assert WORDS in client.get("/").content.decode()
    failing_poll.setattr(tasks.schedule, "due", lambda *_: [])
    run("site.poll")
    assert WORDS not in client.get("/").content.decode()


def test_doctor_says_what_and_since_when(failing_poll: Any, capsys: Any) -> None:
    from webapp.operate.heartbeats import store
    from webapp.operate.models import Heartbeat

    store(Heartbeat.Kind.BEAT, "beat")
    run("site.poll")
    with pytest.raises(SystemExit):
        call_command("doctor")
    said = " ".join(capsys.readouterr().out.split())
    assert "site.poll fails since" in said
    assert WHY in said


def test_what_one_reader_asked_for_makes_nothing_unready(monkeypatch: pytest.MonkeyPatch) -> None:
    app.tasks["site.learn"].apply(("no number",), routing_key="quick")
    assert Failure.objects.get().task == "site.learn"
    assert tasks_check().ok
    assert "site.learn fails since" in tasks_check().detail


PAGES = {  # where a reader waits for what a task does
    "site.learn": "/library/",
    "site.learn_all": "/feeds/",
    "site.save_named": "/library/import/",
    "site.save_by": "/library/",
    "site.read_zotero": "/library/zotero/",
    "site.mail": "/account/mail/",
    "site.mail_link": "/sign-in/",
    "site.build": "/account/mail/",
    "site.summaries": "/summaries/2025-12-18/",
    "site.summarise": "/summaries/2025-12-18/",
    "site.read_tables": "/papers/2603.00001/",
    "site.read_tables_of": "/papers/2603.00001/",
    "site.link": "/methods/",
    "site.vectors": "/search?q=attention",
    "site.postings": "/search?q=attention",
    "site.tidy": "/workers/",
    **{f"runs.{name}": "/runs/" for name in ("dispatch", "expire", "heartbeat", "record", "sweep")},
    "health.token": "/workers/",
}


def test_every_task_has_a_page_that_says_it_fails() -> None:
    """A new task fails here until a page is concerned with it."""
    # Where another test has loaded it, the bench worker's task is known, too.
    ours = {name for name in app.tasks if not name.startswith(("celery.", "bench."))}
    assert ours == PAGES.keys() | {"site.poll", "site.enrich"}  # the pages of days, as above


@pytest.mark.parametrize("task", PAGES)
def test_the_page_concerned_says_what_fails_and_since_when(client: Client, task: str) -> None:
    client.force_login(factories.make_reader("ada"))
    factories.make_day()

    def page() -> str:
        answer = client.get(PAGES[task], follow=True)
        assert answer.status_code == 200, answer.redirect_chain
        return " ".join(answer.content.decode().split())

    assert "manage.py doctor" not in page()
    failures.record(task, DatabaseError(WHY), periodic=True)
    since = timezone.now() - timedelta(hours=3)
    Failure.objects.update(since=since)
    assert f"since {since:%Y-%m-%d %H:%M} UTC: an error in Assay or its database" in page()
    assert WHY not in page()
    failures.forget(task)
    assert "manage.py doctor" not in page()


def test_an_old_failure_of_what_is_not_asked_for_again_is_forgotten() -> None:
    app.tasks["site.learn"].apply(("no number",), routing_key="quick")
    Failure.objects.update(last_at=timezone.now() - timedelta(days=15))
    assert tasks_check().detail == "none fails"

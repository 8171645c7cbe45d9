"""Each task has the queue of its promise, and a worker started without options serves them all."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from tests import factories
from tests.processes import FOREVER, PATIENCE, forked, wait_for
from tests.runs.rig import Rig, standing
from tests.servers.arxiv import ArxivServer
from webapp.core import tasks
from webapp.digests.models import Digest
from webapp.library.models import Star
from webapp.operate.heartbeats import QUEUE_SILENCE, ages
from webapp.operate.models import Heartbeat
from webapp.papers.limiter import slot
from webapp.papers.models import Paper
from webapp.readers.models import SignInLink
from workers.site.app import app
from workers.site.queues import ThreadPool
from workers.up.children import children

QUICK = {"site.learn", "site.mail_link"}
OF = {
    "quick": QUICK,
    "bulk": {
        *("site.link", "site.vectors", "site.learn_all", "site.summaries"),
        "site.build",
        "site.tidy",
        *("site.postings", "site.read_zotero"),
    },
    "arxiv": {
        *("site.poll", "site.enrich", "site.read_tables", "site.read_tables_of"),
        *("site.save_named", "site.save_by"),
    },
    "mail": {"site.mail"},
    "summaries": {"site.summarise"},
    "events": {"runs.record", "runs.heartbeat", "runs.dispatch", "runs.sweep", "runs.expire"},
}


def queue_of(application: Any, name: str) -> str:
    queue: str = application.amqp.router.route({}, name)["queue"].name
    return queue


def test_each_task_has_the_queue_of_its_promise() -> None:
    app.loader.import_default_modules()
    names = {name for name in app.tasks if name.startswith(("site.", "runs."))}
    assert names == set().union(*OF.values())
    for sender in (app, tasks.app()):
        assert {name: queue_of(sender, name) for name in names} == {
            name: queue for queue, some in OF.items() for name in some
        }
    assert set(settings.QUEUES) == set(OF)


def test_up_serves_each_queue(settings: Any) -> None:
    settings.CELERY_BROKER_URL = ""
    names = {child.name for child in children(0, ml=False)}
    assert names >= {"site", "web"} | ({*OF} - {*settings.SMALL_QUEUES})


def test_a_thread_that_hangs_ends_its_process(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        pool = ThreadPool(limit=2, timeout=0.5)
        pool.start()
        done = {"callback": lambda _: None}
        pool.apply_async(print, ("done in time",), timeout=PATIENCE, **done)
        pool.apply_async(time.sleep, (FOREVER,), **done)
        time.sleep(FOREVER)

    worker = forked(work)
    worker.join()
    assert worker.exitcode == 1
    assert "done in time" in capfd.readouterr().out


@pytest.mark.slow
def test_a_process_that_has_taken_much_memory_stops_after_its_task(
    tmp_path: Path, django_db_setup: None, django_db_blocker: Any
) -> None:
    with django_db_blocker.unblock(), standing(Rig(tmp_path)) as rig:
        bulk = ("-A", "workers.site.app", "worker", "-Q", "bulk", "-P", "threads")
        worker = rig.start("bulk", *bulk, "--max-memory-per-child", "1000")
        tasks.app().send_task("health.token", queue="bulk")
        heard = Heartbeat.objects.filter(kind="queue", name="bulk")
        wait_for(heard.exists, "the end of the task")
        wait_for(lambda: not worker.is_alive(), "the end of the process")
        assert worker.exitcode == 0


@pytest.mark.slow
def test_a_worker_without_options_serves_every_queue(
    tmp_path: Path, django_db_setup: None, django_db_blocker: Any
) -> None:
    with django_db_blocker.unblock(), standing(Rig(tmp_path)) as rig:
        rig.start("all", "-A", "workers.site.app", "worker")
        for queue in settings.QUEUES:
            tasks.app().send_task("health.token", queue=queue)
        heard = Heartbeat.objects.filter(kind="queue").values_list("name", flat=True)
        wait_for(lambda: set(heard.all()) == set(settings.QUEUES), "an answer of each queue")


@pytest.mark.slow
def test_the_next_message_is_taken_when_a_task_ends(
    tmp_path: Path, django_db_setup: None, django_db_blocker: Any
) -> None:
    """Not when Celery's loop wakes by itself, which may take a second."""
    with django_db_blocker.unblock(), standing(Rig(tmp_path)) as rig:
        rig.start("two", "-A", "workers.site.app", "worker", "-Q", "quick,mail", "-P", "threads")
        tasks.app().send_task("health.token", queue="quick")
        client = tasks.app().connection().default_channel.client
        heard = Heartbeat.objects.filter(kind="queue", name="quick")
        wait_for(heard.exists, "a worker that runs")
        for _ in range(60):
            tasks.app().send_task("health.token", queue="quick")
        wait_for(lambda: client.llen("quick") == 0, "sixty tasks in twenty seconds")


@pytest.mark.slow
@pytest.mark.parametrize("pool", [("-P", "threads", "-c", "2"), ("-P", "prefork", "-c", "2")])
def test_a_sign_in_link_waits_for_no_look_up_in_the_same_worker(
    tmp_path: Path, django_db_setup: None, django_db_blocker: Any, pool: tuple[str, ...]
) -> None:
    """Thirty look-ups that wait for arXiv hold one thread, or one child, of the two."""
    site = ("-A", "workers.site.app", "worker")
    with django_db_blocker.unblock(), standing(Rig(tmp_path)) as rig:
        reader: User = factories.make_reader("patient")
        User.objects.filter(pk=reader.pk).update(email="patient@home.example")
        # A look-up that outlasts the slot finds no arXiv.
        nowhere = {"ASSAY_ARXIV_API_URL": "http://127.0.0.1:9"}
        rig.start("small", *site, *pool, "-Q", "quick,arxiv", **nowhere)
        with slot(timeout=60):
            for number in range(30):
                tasks.send("site.save_named", [reader.pk, [f"2511.{number:05d}"]], lost="nothing")
            # What takes its time says so: the queue is not down.
            wait_for(lambda: "arxiv" in ages(Heartbeat.Kind.QUEUE), "a look-up that waits")
            tasks.send("site.mail_link", ["patient@home.example"], lost="nothing")
            wait_for(SignInLink.objects.filter(reader=reader).exists, "the link")
            assert not Star.objects.filter(reader=reader).exists()
            assert ages(Heartbeat.Kind.QUEUE)["arxiv"] < QUEUE_SILENCE.total_seconds()


@pytest.mark.slow
def test_what_readers_look_up_waits_for_no_digest(
    tmp_path: Path, django_db_setup: None, django_db_blocker: Any
) -> None:
    """With nobody at work on `bulk`, a day's papers come and a look-up after them is answered."""
    with ArxivServer() as arxiv, django_db_blocker.unblock(), standing(Rig(tmp_path)) as rig:
        served = {
            "ASSAY_ARXIV_RSS_URL": arxiv.rss_url,
            "ASSAY_ARXIV_API_URL": arxiv.api_url,
            "ASSAY_ARXIV_SECONDS": "0",
            "ASSAY_CATEGORIES": "cs.CL",
        }
        site = ("-A", "workers.site.app", "worker", "-Q")
        rig.start("arxiv", *site, "arxiv", **served)
        reader = factories.make_reader("patient")
        tasks.send("site.poll", [], lost="nothing")
        wait_for(Paper.objects.exists, "papers")
        wanted = Paper.objects.values_list("arxiv_id", flat=True)[0]
        tasks.send("site.save_named", [reader.pk, [wanted]], lost="nothing")
        wait_for(Star.objects.filter(reader=reader).exists, "what was looked up")
        assert not Digest.objects.exists()
        rig.start("bulk", *site, "bulk", **served)
        wait_for(Digest.objects.filter(date=arxiv.today).exists, "the digest")

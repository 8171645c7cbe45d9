"""The Celery application beside the database, and when its periodic tasks are due.

    celery -A workers.site.app worker               runs the tasks of all queues, a child for each
    celery -A workers.site.app worker -Q quick      those of one queue, one at a time
    celery -A workers.site.app worker -Q quick,mail -P threads -c 2    two queues in one process
    celery -A workers.site.app beat                 sends them when they are due; one process

Tasks take primitives, call one domain function and may be sent twice without harm.
"""

import os
import sys
import warnings
from typing import Any

from celery import Celery, concurrency, signals
from django.conf import settings
from django.db import close_old_connections

import assay_common.stopping  # noqa: F401 (its signals come first: a pool dies with its worker)
from assay_common import env
from assay_common.liveness import LivenessFile
from assay_common.redis_broker import configure, quiet_worker
from webapp.ui.translations import compile_catalogues
from workers.site.queues import QueueConsumers

# Celery sets Django up before it imports the tasks where it finds this variable.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

# Celery would run Django's checks, which load every view, in each worker and the beat: a fifth of
# their start. The tests run the checks, and settings are validated as they are read.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

# Celery warns root about pickle, but only JSON is accepted here.
warnings.filterwarnings("ignore", "You're running the worker with superuser privileges")

compile_catalogues()
env.data_directory()  # what a worker or the beat writes there is for its user alone
app = Celery(
    "assay",
    include=["workers.site.tasks", "workers.site.beat", "workers.site.queue_health"],
    task_cls="assay_common.acknowledgement:Task",
)
app.config_from_object("django.conf:settings", namespace="CELERY")
configure(app)
app.steps["consumer"].update([LivenessFile, QueueConsumers])
concurrency.ALIASES["threads"] = "workers.site.queues:ThreadPool"  # type: ignore[attr-defined]
# A cached property, which its types declare read-only.
app.Worker = quiet_worker(app.Worker, settings.QUEUES)  # type: ignore[misc]
# Celery would reconnect to the database for each task, which takes longer than most tasks do.
app.conf["CELERY_DB_REUSE_MAX"] = sys.maxsize

# Seconds until a task is ended from outside: whatever hangs, the queue goes on.
BRIEF, LONG = 60, 20 * 60
app.conf.task_time_limit = LONG


def _every(seconds: float, task: str, **options: str) -> dict[str, Any]:
    """An entry that expires just before the next is due: after a pause one waits, not a hundred."""
    expires = seconds - min(10.0, seconds / 10)
    return {"task": task, "schedule": seconds, "options": options | {"expires": expires}}


app.conf.beat_schedule = {
    # What is due is decided by the audit, close to arXiv's midnight and further off when a feed
    # is stale or failed; beat only asks.
    "poll": _every(300.0, "site.poll"),
    "enrich": _every(300.0, "site.enrich"),
    "build": _every(60.0, "site.build"),
    "tables": _every(60.0, "site.read_tables"),
    "link": _every(60.0, "site.link"),
    "vectors": _every(60.0, "site.vectors"),
    "postings": _every(60.0, "site.postings"),
    "learn": _every(60.0, "site.learn_all"),
    "zotero": _every(3600.0, "site.read_zotero"),
    "mail": _every(300.0, "site.mail"),
    "tidy": _every(86_400.0, "site.tidy"),
    # Wakes what waits: new papers of a digest, summaries put off, those a lost worker held.
    "summarise": _every(30.0, "site.summaries"),
    "sweep": _every(env.read().lease / 6, "runs.sweep"),
    **{f"token {name}": _every(30.0, "health.token", queue=name) for name in settings.QUEUES},
}
app.conf.beat_scheduler = "workers.site.beat:Scheduler"


@signals.task_prerun.connect
@signals.task_postrun.connect
def _keep_connection(**_: Any) -> None:
    """Keep the database connection for many tasks, unless it is old or broken."""
    close_old_connections()


@signals.task_prerun.connect
def _forget_follow_ups(task: Any, **_: Any) -> None:
    """Bench workers write messages, too: none may name tasks that start after this one."""
    task.request.update(callbacks=None, errbacks=None, chain=None, chord=None)

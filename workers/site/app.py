"""The Celery application beside the database, and when its periodic tasks are due.

    celery -A workers.site.app worker    runs the tasks of `workers.site.tasks`
    celery -A workers.site.app beat      sends them when they are due; exactly one process

Tasks take primitives, call one domain function and may be sent twice without harm.
"""

from __future__ import annotations

import gc
import os
import warnings
from typing import Any

from celery import Celery
from celery.signals import worker_before_create_process, worker_process_init
from django.conf import settings

from webapp.redis_broker import use_own_transport
from workers.liveness import LivenessFile
from workers.parent_death import die_with_parent

# Celery sets Django up before it imports the tasks where it finds this variable.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

# Celery would run Django's checks in every worker and the beat, and load all addresses for them: a
# fifth of their start. The tests run the checks, and settings are judged as they are read.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

# Celery warns root of pickle; messages here are JSON and nothing else is accepted.
warnings.filterwarnings("ignore", "You're running the worker with superuser privileges")

use_own_transport()
app = Celery(
    "assay",
    include=["workers.site.tasks", "workers.site.beat", "workers.site.proof"],
    task_cls="workers.acknowledgement:Task",
)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["consumer"].add(LivenessFile)

# Seconds until a task is ended from outside: whatever hangs, the queue goes on.
BRIEF, LONG = 60, 20 * 60
app.conf.task_time_limit = LONG

# {name: {"task": "site.<verb>", "schedule": seconds or crontab, "options": {"expires": seconds}}}
# An entry expires just before it is due again: a worker that was away finds one, not a hundred.
_POLL = 5 * 60.0
_SWEEP = settings.RUN_LEASE / 6
app.conf.beat_schedule = {
    # What is due is decided by the audit, close to arXiv's midnight and further off when a feed
    # is stale or failed; beat only asks.
    "poll": {"task": "site.poll", "schedule": _POLL, "options": {"expires": _POLL - 10}},
    "enrich": {"task": "site.enrich", "schedule": _POLL, "options": {"expires": _POLL - 10}},
    "link": {"task": "site.link", "schedule": 60.0, "options": {"expires": 55}},
    "learn": {"task": "site.learn_all", "schedule": 60.0, "options": {"expires": 55}},
    "mail": {"task": "site.mail", "schedule": _POLL, "options": {"expires": _POLL - 10}},
    "tidy": {"task": "site.tidy", "schedule": 86_400.0, "options": {"expires": 86_390}},
    # Wakes what waits: new papers of a digest, summaries put off, those a lost worker held.
    "summarise": {"task": "site.summaries", "schedule": 30.0, "options": {"expires": 25}},
    "sweep": {
        "task": "runs.sweep",
        "schedule": _SWEEP,
        "options": {"queue": "events", "expires": 0.9 * _SWEEP},
    },
}
TOKEN_SECONDS = 10.0
for _queue in settings.QUEUES:
    app.conf.beat_schedule[f"token {_queue}"] = {
        "task": "health.token",
        "args": [_queue],
        "schedule": TOKEN_SECONDS,
        "options": {"queue": _queue, "expires": TOKEN_SECONDS - 1},
    }
# Models take minutes: they have a queue, and a worker, of their own.
app.conf.task_routes = {"site.summarise": {"queue": "summaries"}}
app.conf.beat_scheduler = "workers.site.beat:Scheduler"


@worker_before_create_process.connect
def _share_memory(**_: Any) -> None:
    """The collector leaves alone what the pool's processes share, so they go on sharing it."""
    gc.freeze()


@worker_process_init.connect
def _die_with_worker(**_: Any) -> None:
    """A pool's process dies with the worker that forked it, even of kill -9."""
    die_with_parent()

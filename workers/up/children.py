"""The processes of `manage.py up`, in the order they start."""

from __future__ import annotations

import sys

from django.conf import settings

from webapp import env
from workers.up import redis
from workers.up.supervisor import Child

LOCAL_BENCH = "local"  # the name of the bench worker on this machine
PYTHON = sys.executable
CELERY = (PYTHON, "-m", "celery", "--quiet", "--app", "workers.site.app")
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")


def children(listener: int, *, ml: bool) -> list[Child]:
    """What runs; what the pages need comes first, and the web server is called `web`."""
    level = ("--loglevel", settings.LOG_LEVEL)
    gunicorn = [PYTHON, "-m", "gunicorn", "--config", "python:workers.web.gunicorn"]
    gunicorn += ["--bind", f"fd://{listener}", "webapp.wsgi"]
    table = [
        Child("web", gunicorn, pass_fds=(listener,)),
        _site_worker("site", "site"),
        _site_worker("events", "events"),
        Child("beat", [*CELERY, "beat", *level]),
        Child("arxiv", [PYTHON, "-m", "workers.up.first_day"], once=True),
    ]
    if not env.read().celery_broker_url.get_secret_value():
        table.insert(0, Child("redis", redis.command(settings.DATA_DIR)))
    if settings.SUMMARY_MODEL:
        places = ("--concurrency", str(settings.SUMMARY_CONCURRENCY))
        table.append(_site_worker("summaries", "summaries", *places))
    if ml:
        table += _measuring()
    return table


def _site_worker(name: str, queue: str, *arguments: str) -> Child:
    node = ("--hostname", f"{name}@%h", "--queues", queue)
    level = ("--loglevel", settings.LOG_LEVEL)
    return Child(name, [*CELERY, "worker", *node, *arguments, *level, *QUIET])


def _measuring() -> list[Child]:
    """The installer of what the methods need, and the bench worker that waits for it."""
    from webapp.runs import keys  # noqa: PLC0415 (models load only after django.setup())

    key = {"ASSAY_WORKER_NAME": LOCAL_BENCH, "ASSAY_WORKER_KEY": keys.issue(LOCAL_BENCH)}
    return [
        Child("ml", [PYTHON, "-m", "workers.up.install_ml"], once=True),
        Child("bench", [PYTHON, "-m", "workers.up.local_bench"], environment=key),
    ]

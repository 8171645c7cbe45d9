"""The processes of `manage.py up`, in the order they start."""

from __future__ import annotations

import sys

from django.conf import settings

from workers.up.supervisor import Child

LOCAL_BENCH = "local"  # the name of the bench worker on this machine


def children(listener: int, *, ml: bool) -> list[Child]:
    """What runs, in the order it starts: the pages first."""
    from webapp.runs import keys  # noqa: PLC0415 (models load only after django.setup())

    python = sys.executable
    celery = [python, "-m", "celery", "--quiet", "--app", "workers.site.app"]
    level = ["--loglevel", settings.LOG_LEVEL]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    gunicorn = [python, "-m", "gunicorn", "--config", "python:workers.web.gunicorn"]
    table = [
        Child(
            "web",
            [*gunicorn, "--bind", f"fd://{listener}", "webapp.wsgi"],
            pass_fds=(listener,),
        ),
        Child("site", [*celery, "worker", "--hostname", "site@%h", *level, *quiet]),
        Child(
            "events",
            [*celery, "worker", "--hostname", "events@%h", "--queues", "events", *level, *quiet],
        ),
        Child("beat", [*celery, "beat", *level]),
        Child("arxiv", [python, "-m", "workers.up.first_day"], once=True),
    ]
    if settings.SUMMARY_MODEL:
        places = ["--concurrency", str(settings.SUMMARY_CONCURRENCY)]
        models = [*celery, "worker", "--hostname", "models@%h", "--queues", "summaries"]
        table.append(Child("models", [*models, *places, *level, *quiet]))
    if ml:
        table.append(Child("ml", [python, "-m", "workers.up.install_ml"], once=True))
        bench = {"ASSAY_WORKER_NAME": LOCAL_BENCH, "ASSAY_WORKER_KEY": keys.issue(LOCAL_BENCH)}
        table.append(Child("bench", [python, "-m", "workers.up.local_bench"], environment=bench))
    return table

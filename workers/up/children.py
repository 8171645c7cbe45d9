"""The child processes of `manage.py up`, in the order they start.

Importing the site and Celery takes seconds. The supervisor does it once and forks the processes
that run the site's code: they start and restart at once, and share memory.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

from django.conf import settings

from webapp import env
from webapp.core import connections
from webapp.operate import local_model
from workers.up import install_ml, redis
from workers.up.local_model import LOCAL_BENCH, LocalModel, run_requested
from workers.up.supervisor import Child

PYTHON = sys.executable
# Of the process that builds digests; it is replaced after a task that left more in memory, such as
# the weights of an encoder.
BULK_KIB = 180_000
# Modules that a worker would import as it starts.
OF_CELERY = (
    "celery.apps.worker",
    "celery.concurrency.prefork",
    "celery.worker.consumer",
    "celery.worker.loops",
    "celery.worker.strategy",
    "assay_common.redis_transport",
    "workers.site.beat",
    "workers.site.queue_health",
    "workers.site.tasks",
)


def children(listener: int, *, ml: bool, model: LocalModel | None = None) -> Iterator[Child]:
    """The children, first those that the pages need; the web server is called `web`."""
    if not env.read().celery_broker_url.get_secret_value():
        yield Child("redis", _command(redis.command(settings.DATA_DIR)), last=True)
    load_site()
    _import("webapp.wsgi")  # not before the static files are collected: it lists them
    gunicorn = ("--config", "python:workers.web.gunicorn", "--bind", f"fd://{listener}")
    yield Child(
        "web", _main("gunicorn.app.wsgiapp:run", *gunicorn, "webapp.wsgi"), keep=(listener,)
    )
    _import(*OF_CELERY)
    # In one process: digests are built beside it, so no reader waits for them.
    yield Child("site", partial(_work, settings.SMALL_QUEUES, beat=True))
    # Apart: while a thread learns from a reader, the others of its process hardly run.
    yield Child("events", partial(_work, ["events"]))
    yield Child("bulk", partial(_work, ["bulk"], max_memory_per_child=BULK_KIB))
    command = "django.core.management:execute_from_command_line"
    yield Child("results", _main(command, "import_results"), once=True)
    if model is not None:
        yield Child("model", model.run)
    else:
        yield Child("model", run_requested, when=lambda: local_model.requested() != "")
    summaries = partial(_work, ["summaries"], "prefork", concurrency=settings.SUMMARY_PROCESSES)
    yield Child("summaries", summaries, when=_is_model_connected)
    if ml:
        yield from _measuring()


def load_site() -> None:
    """Import what serves pages, except what needs the database or the static files."""
    _import("webapp.urls", "gunicorn.app.wsgiapp", "workers.web.receiving")


def _work(queues: list[str], pool: str = "threads", *, beat: bool = False, **options: Any) -> None:
    """Run a worker of the site, by default with a thread for each queue; perhaps with the beat."""
    from workers.site.app import app  # noqa: PLC0415 - Celery loads after the pages are served
    from workers.site.beat import start_beside_worker  # noqa: PLC0415

    if beat:
        start_beside_worker()
    options = {"concurrency": len(queues), **options}
    worker = app.Worker(
        queues=queues, pool=pool, loglevel=settings.LOG_LEVEL, quiet=True, **options
    )
    worker.start()
    sys.exit(worker.exitcode)


def _is_model_connected() -> bool:
    return bool(connections.current().summary_model)


def _measuring() -> Iterator[Child]:
    """Yield the installer of what the methods need, and the bench worker, which starts after it.

    Both replace the fork by another program, so benchmarks inherit nothing of the site.
    """
    from webapp.runs import keys  # noqa: PLC0415 (models load only after django.setup())

    yield Child("ml", _command([PYTHON, "-m", "workers.up.install_ml"]), once=True)
    key = {"ASSAY_WORKER_NAME": LOCAL_BENCH, "ASSAY_WORKER_KEY": keys.issue(LOCAL_BENCH)}
    worker = [PYTHON, "-m", "methods.worker", "bench-cpu", "--loglevel", settings.LOG_LEVEL]
    yield Child("bench", _command(worker), environment=key, when=install_ml.is_done)


def _import(*modules: str) -> None:
    """Import modules for the next children; the collector then ignores the shared memory."""
    for module in modules:
        import_module(module)
    gc.collect()
    gc.freeze()


def _command(command: list[str]) -> Callable[[], object]:
    """Replaces the fork by another program."""
    return partial(os.execv, command[0], command)


def _main(target: str, *arguments: str) -> Callable[[], object]:
    """Calls a program's entry point `module:function` as its command line would."""

    def run() -> None:
        module, _, function = target.partition(":")
        sys.argv = [module, *arguments]
        sys.exit(getattr(import_module(module), function)())

    return run

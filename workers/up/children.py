"""The processes of `manage.py up`, in the order they start.

Python takes seconds to import the site and Celery. The supervisor does it once, and what runs the
site's code is forked from it: it starts, and starts again, at once, and shares the memory.
"""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module

from django.conf import settings

from webapp import connections, env
from workers.up import install_ml, redis
from workers.up.supervisor import Child

LOCAL_BENCH = "local"  # the name of the bench worker on this machine
PYTHON = sys.executable
PAUSE = 2.0  # seconds between two looks for what a worker waits for
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
# What a worker would import by itself as it starts.
OF_CELERY = (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.worker.consumer",
    "workers.site.beat",
    "workers.site.tasks",
)


def children(listener: int, *, ml: bool) -> Iterator[Child]:
    """What runs; what the pages need comes first, and the web server is called `web`."""
    if not env.read().celery_broker_url.get_secret_value():
        yield Child("redis", _command(redis.command(settings.DATA_DIR)), last=True)
    load_site()
    _import("webapp.wsgi")  # it looks at once which static files there are
    gunicorn = ("--config", "python:workers.web.gunicorn", "--bind", f"fd://{listener}")
    yield Child(
        "web", _main("gunicorn.app.wsgiapp:run", *gunicorn, "webapp.wsgi"), keep=(listener,)
    )
    _import(*OF_CELERY)
    level = ("--loglevel", settings.LOG_LEVEL)
    yield _site_worker("site", *level)
    yield _site_worker("events", *level)
    yield Child("beat", _celery("beat", *level))
    command = "django.core.management:execute_from_command_line"
    yield Child("results", _main(command, "import_results"), once=True)
    models = _site_worker("summaries", *level, "--concurrency", str(settings.SUMMARY_CONCURRENCY))
    yield replace(models, run=partial(_wait_for, _is_model_connected, models.run))
    if ml:
        yield from _measuring()


def load_site() -> None:
    """Load what serves pages, as far as it needs neither the database nor the static files."""
    _import("webapp.urls", "gunicorn.app.wsgiapp", "gunicorn.workers.gthread")


def _site_worker(name: str, *arguments: str) -> Child:
    node = ("--hostname", f"{name}@%h", "--queues", name)
    return Child(name, _celery("worker", *node, *arguments, *QUIET))


def _is_model_connected() -> bool:
    return bool(connections.current().summary_model)


def _wait_for(is_there: Callable[[], bool], work: Callable[[], object]) -> None:
    """Begin when what the work needs is there: a worker that has nothing to do takes memory."""
    while not is_there():
        time.sleep(PAUSE)
    work()


def _measuring() -> Iterator[Child]:
    """The installer of what the methods need, and the bench worker that waits for it.

    Both become other programs: benchmarks begin in a process that has seen nothing of the site.
    """
    from webapp.runs import keys  # noqa: PLC0415 (models load only after django.setup())

    yield Child("ml", _command([PYTHON, "-m", "workers.up.install_ml"]), once=True)
    key = {"ASSAY_WORKER_NAME": LOCAL_BENCH, "ASSAY_WORKER_KEY": keys.issue(LOCAL_BENCH)}
    worker = [PYTHON, "-m", "celery", "--quiet", "--app", "workers.bench.app", "worker"]
    worker += ["--queues", "bench-cpu", "--loglevel", settings.LOG_LEVEL, *QUIET]
    yield Child("bench", partial(_wait_for, install_ml.is_done, _command(worker)), environment=key)


def _import(*modules: str) -> None:
    """Load what the next children need, and keep the collector off the pages they will share."""
    for module in modules:
        import_module(module)
    gc.collect()
    gc.freeze()


def _command(command: list[str]) -> Callable[[], object]:
    """Another program in place of the fork."""
    return partial(os.execv, command[0], command)


def _celery(*arguments: str) -> Callable[[], object]:
    return _main("celery.__main__:main", "--quiet", "--app", "workers.site.app", *arguments)


def _main(target: str, *arguments: str) -> Callable[[], object]:
    """A program's entry point `module:function`, called as its command line would."""

    def run() -> None:
        module, _, function = target.partition(":")
        sys.argv = [module, *arguments]
        sys.exit(getattr(import_module(module), function)())

    return run

"""Celery's processes, forked from one that has loaded the libraries, as `up` forks its own.

They read their settings after the fork, so that one such process serves every rig.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.processes import ROOT

# Nothing in it reads a setting, and no model is among it. Nothing of `methods` is: it reads where
# further methods lie, which each rig says of its own, when it is loaded.
LIBRARIES = [
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.worker.consumer",
    "django.core.management",
    "django.db.models",
    "kombu.transport.redis",
    "webapp.env",
]


def start(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path, *, anew: bool
) -> ForkServerProcess:
    """Start `celery` with arguments; its output goes to the end of `log`.

    `anew`: in a new Python, which the environment alone makes what it is.
    """
    log.touch()
    server = get_context("forkserver")
    server.set_forkserver_preload(LIBRARIES)
    process = server.Process(target=_become, args=(arguments, environment, log, anew), daemon=True)
    process.start()
    return process


def _become(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path, anew: bool
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    if anew:
        os.execv(sys.executable, [sys.executable, "-m", "celery", *arguments])
    from celery.__main__ import main

    sys.argv = ["celery", *arguments]
    sys.exit(main())

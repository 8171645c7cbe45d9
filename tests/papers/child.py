"""Work of another process, for tests that need several or that kill it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.db import connection

from tests.papers.conftest import WEDNESDAY, noon
from webapp.papers import limiter, schedule

Say = Callable[[Any], None]


def ask(say: Say, count: int) -> None:
    """Take the place in the queue so often."""
    for _ in range(count):
        with limiter.slot(timeout=600):
            began = time.monotonic()
            time.sleep(0.02)
            say((began, time.monotonic()))


def hold(say: Say) -> None:
    """Take it and keep it."""
    with limiter.slot(timeout=600):
        say("held")
        time.sleep(3600)


def fetch(say: Say, stop_at: int = 0) -> None:
    """Fetch cs.CL; stop for good at that SQL statement, else say how many there were."""
    count = 0

    def watch(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal count
        result = execute(sql, *rest)
        if connection.in_atomic_block and "papers_arxivslot" not in sql:
            count += 1
            if count == stop_at:
                say("stopped")
                time.sleep(3600)
        return result

    with connection.execute_wrapper(watch):
        schedule.fetch(["cs.CL"], moment=noon(WEDNESDAY))
    say(count)

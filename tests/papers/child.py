"""Another process of Assay's, for tests that need several or that kill one.

python -m tests.papers.child ask 5              take the place in the queue five times
python -m tests.papers.child fetch [STATEMENT]  fetch cs.CL; stop for good at that SQL statement
python -m tests.papers.child hold               take it and keep it
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import django


def ask(count: int) -> None:
    from webapp.papers import limiter

    for _ in range(count):
        with limiter.place(patience=60):
            began = time.monotonic()
            time.sleep(0.02)
            say({"began": began, "ended": time.monotonic()})


def hold() -> None:
    from webapp.papers import limiter

    with limiter.place(patience=60):
        say("held")
        time.sleep(600)


def fetch(stop_at: int = 0) -> None:
    from django.db import connection

    from tests.papers.conftest import WEDNESDAY, noon
    from webapp.papers import schedule

    count = 0

    def watch(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal count
        result = execute(sql, *rest)
        if connection.in_atomic_block and "papers_arxivslot" not in sql:
            count += 1
            if count == stop_at:
                say("stopped")
                time.sleep(600)
        return result

    with connection.execute_wrapper(watch):
        report = schedule.fetch(["cs.CL"], at=noon(WEDNESDAY))
    say({"statements": count, "rows": [str(row.state) for row in report.rows]})


def say(value: Any) -> None:
    print(json.dumps(value, default=date.isoformat), flush=True)


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
    django.setup()
    commands: dict[str, Callable[..., None]] = {
        "ask": ask,
        "hold": hold,
        "fetch": fetch,
    }
    commands[sys.argv[1]](*map(int, sys.argv[2:]))

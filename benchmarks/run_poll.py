"""What a page that watches a run costs the server a look.

    python benchmarks/run_poll.py [--runs 5000] [--polls 2000]

Fills a database with runs and their events, then asks the whole application (every middleware, the
template, the database) for what is new of a run under way, in this process: where nothing is new,
where progress moved, and where a piece of log came. Fails over the target.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.empty_site import empty_site

TARGET = 0.003  # seconds of server time, median of each kind


def main() -> int:
    """Fill, ask, print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--polls", type=int, default=2_000)
    options = parser.parse_args()
    with empty_site():
        from django.conf import settings

        settings.ALLOWED_HOSTS = ["testserver"]
        settings.STORAGES["staticfiles"]["BACKEND"] = (
            "django.contrib.staticfiles.storage.StaticFilesStorage"
        )
        return measure(fill(options.runs), options.polls)


def fill(count: int) -> object:
    """Runs with two hundred events each for every fiftieth; return one that runs."""
    from django.utils import timezone

    from webapp.runs.models import Event, Run

    now = timezone.now()
    runs = Run.objects.bulk_create(
        Run(
            method="sparse_attention",
            benchmark="latency",
            device="cpu",
            limit_seconds=300,
            state="running" if number == 0 else "succeeded",
            token=f"token-{number}",
            attempt=1,
            queued_at=now,
            started_at=now,
            progress={"fraction": 0.4, "message": "block 3", "elapsed": 9.0, "left": 12.0},
            progress_seq=7,
        )
        for number in range(count)
    )
    Event.objects.bulk_create(
        Event(
            run=run,
            token=run.token,
            seq=seq,
            kind="log",
            body={"offset": 80 * seq, "size": 80, "text": "x" * 79 + "\n"},
            recorded_at=now,
        )
        for run in runs[::50]
        for seq in range(200)
    )
    return runs[0]


def measure(run: object, polls: int) -> int:
    """Ask for each kind of news `polls` times."""
    from django.core.handlers.wsgi import WSGIHandler
    from django.db import connection
    from django.test import RequestFactory

    from webapp.runs.models import Event, Run
    from webapp.runs.web.progress import seen_now

    assert isinstance(run, Run)
    now = seen_now(run)
    kinds = {
        "nothing new": str(now),
        "progress moved": f"running.1.6.{now.heard}.",
        "a piece of log": f"running.1.6.{now.heard - 1}.",
    }
    handler, factory, slow = WSGIHandler(), RequestFactory(), False
    print(f"{connection.vendor}, {Run.objects.count()} runs, {Event.objects.count()} events")
    for kind, seen in kinds.items():
        address = f"/runs/{run.pk}/live?seen={seen}"
        times = []
        for number in range(polls + 50):
            environ = factory.get(address, headers={"HX-Request": "true"}).environ
            began = time.thread_time()
            response = handler(environ, lambda *_: None)
            body = b"".join(response)
            if number >= 50:  # the first fill caches
                times.append(time.thread_time() - began)
            response.close()
        assert (response.status_code, bool(body)) in {(204, False), (200, True)}
        assert (response.status_code == 204) == (kind == "nothing new")
        median, high = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        slow = slow or median > TARGET
        print(f"{kind:15} {median * 1e3:5.2f} ms median, {high * 1e3:5.2f} ms p95 of server time")
    print(f"target: {TARGET * 1e3:.0f} ms: {'missed' if slow else 'met'}")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())

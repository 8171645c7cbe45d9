"""The time from a request for a run to the worker's first recorded event, with real processes.

    python -m benchmarks.run_latency --runs 40

There is one idle worker. Each run is queued as the page does it, and cancelled once its first event
is in the database. Target: median ≤ 0.1 s.
"""

import os
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, arguments, report
from tests.processes import wait_for
from tests.runs.rig import FIXTURE, Rig, standing

TARGET = 0.1
LEASE = 30  # the default: nothing here depends on a quick sweep


def measure(runs: int) -> list[float]:
    """Seconds from the request to the first event, for each run."""
    from django.contrib.auth.models import User

    from tests.runs.asking import ask, ended
    from webapp.runs import submit
    from webapp.runs.models import Run, Worker

    wait_for(Worker.objects.filter(last_seen__isnull=False).exists, "a worker")
    found = []
    for number in range(runs):
        reader = User.objects.create_user(f"reader {number}")
        started = time.perf_counter()
        run = ask(reader=reader, seconds=60)
        while not Run.objects.filter(pk=run.pk, progress_seq__gte=0).exists():
            time.sleep(0.005)
        found.append(time.perf_counter() - started)
        run.refresh_from_db()
        submit.cancel(run)
        ended(run)
        time.sleep(0.3)
    return found


def main() -> int:
    """Measure, print the quantiles; 1 if the target is missed."""
    options = arguments(__doc__, runs=40).parse_args()
    with TemporaryDirectory(prefix="assay-latency-", ignore_cleanup_errors=True) as folder:
        os.environ |= {"ASSAY_DATA": folder, "ASSAY_METHODS_PATH": str(FIXTURE)}
        os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
        import django

        django.setup()
        with standing(Rig(Path(folder), lease=LEASE)) as rig:
            rig.recorder()
            rig.beat()
            rig.bench()
            seconds = measure(options.runs)
    return report(
        [
            Figure("request to first event, median", statistics.median(seconds), "s", TARGET),
            Figure("the same, p95", statistics.quantiles(seconds, n=20)[-1], "s"),
            Figure("the same, longest", max(seconds), "s"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

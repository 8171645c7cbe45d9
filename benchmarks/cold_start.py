"""The cost of `manage.py up`: a start from a fresh clone, a warm start, and at rest.

    python -m benchmarks.cold_start [--runs 3]

Each run clones the checkout's HEAD, has no virtual environment and no data directory, and installs
everything the first page needs; the package cache is warm from the second run on, and arXiv is out
of reach. A second start finds the environment and the database. Three minutes later, with the bench
worker there, the kernel is asked for processes, memory (proportional shares) and processor time.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.figures import Figure, arguments, report
from tests.processes import ROOT, up

PYTHON = f"{sys.base_prefix}/bin/python3"  # not of a virtual environment
TARGETS = {
    "first page, cold, s": 10.0,
    "first page, warm, s": 2.0,
    "processor time to it, warm, s": 2.0,
    "processes at rest": 12.0,
    "memory at rest, MB": 400.0,
    "load at rest, % of a core": 0.5,
}
SETTLED = 180.0  # seconds after which the start has finished
WATCHED = 60.0  # seconds at rest


def main() -> int:
    """Measure, print the medians, and fail over a target; the exit status."""
    runs = [measure() for _ in range(arguments(__doc__, runs=3).parse_args().runs)]
    figures = []
    for (name, target), values in zip(TARGETS.items(), zip(*runs, strict=True), strict=True):
        seen = "runs " + ", ".join(f"{value:.1f}" for value in values)
        figures.append(Figure(name, statistics.median(values), target=target, beside=seen))
    return report(figures)


def measure() -> tuple[float, ...]:
    """Start a fresh clone three times; what `TARGETS` names, in its order."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "assay"
        git = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet"]
        subprocess.run([*git, str(ROOT), str(clone)], check=True)
        with started(clone, ml=True) as (_, cold):
            pass
        with started(clone, ml=False) as (pid, warm):
            _, _, worked = usage(pid)
        with started(clone, ml=True) as (pid, _):
            time.sleep(SETTLED)
            processes, memory, before = usage(pid)
            time.sleep(WATCHED)
            _, _, after = usage(pid)
        return cold, warm, worked, processes, memory, 100 * (after - before) / WATCHED


@contextmanager
def started(clone: Path, *, ml: bool) -> Iterator[tuple[int, float]]:
    """A running `up` of a clone: its process, and the seconds to its first page."""
    own = {"ASSAY_VENV": "", "WEB_CONCURRENCY": ""}  # as in a fresh shell
    began = time.monotonic()
    with up(clone / "var", root=clone, python=PYTHON, ml=ml, **own) as house:
        assert house.get("")[0] == 200
        yield house.process.pid, time.monotonic() - began
        house.stop()


def usage(pid: int) -> tuple[int, float, float]:
    """Count a process and all below it, their megabytes and their processor seconds."""
    memory = seconds = 0.0
    family = (parent := psutil.Process(pid), *parent.children(recursive=True))
    for process in family:
        memory += process.memory_full_info().pss / 1e6
        times = process.cpu_times()
        seconds += times.user + times.system
    return len(family), memory, seconds


if __name__ == "__main__":
    sys.exit(main())

"""The cost of `manage.py up`: a start from a fresh clone, a warm start, and at rest.

    python -m benchmarks.cold_start [--runs 3]

Each run clones the checkout's HEAD, has no virtual environment and no data directory, and installs
everything the first page needs; the package cache is warm from the second run on, and arXiv is out
of reach. A second start finds the environment and the database. A third installs what the methods
need; three minutes after that, the kernel is asked for processes, memory (proportional shares) and
processor time.
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
from tests.processes import ROOT, House, up, wait_for

PYTHON = f"{sys.base_prefix}/bin/python3"  # not of a virtual environment
TARGETS = {
    "first page, cold, s": 10.0,
    "first page, warm, s": 2.0,
    "processor time to it, warm, s": 2.0,
    "processes at rest": 12.0,
    "memory at rest, MB": 400.0,
    "load at rest, % of a core": 0.5,
}
SETTLED = 180.0  # seconds from the end of the installation to rest
WATCHED = 60.0  # seconds at rest


def main() -> int:
    """Measure, print the medians, and fail over a target; the exit status."""
    runs = [measure() for _ in range(arguments(__doc__, runs=3).parse_args().runs)]
    figures = []
    for (name, target), values in zip(TARGETS.items(), zip(*runs, strict=True), strict=True):
        seen = "runs " + ", ".join(f"{value:.2f}" for value in values)
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
        with started(clone, ml=False) as (house, warm):
            worked = sum(seconds(house).values())
        with started(clone, ml=True) as (house, _):
            wait_for(lambda: is_installed(house), "the packages, kernel and modules of methods")
            time.sleep(SETTLED)
            before = seconds(house)
            time.sleep(WATCHED)
            after = seconds(house)
            memory = [process.memory_full_info().pss / 1e6 for process in family(house)]
        spent = {name: after[name] - before.get(name, 0.0) for name in after}
        print("Seconds at rest: " + ", ".join(f"{name} {s:.2f}" for name, s in spent.items() if s))
        load = 100 * sum(spent.values()) / WATCHED
        return cold, warm, worked, len(memory), sum(memory), load


@contextmanager
def started(clone: Path, *, ml: bool) -> Iterator[tuple[House, float]]:
    """A running `up` of a clone, and the seconds to its first page."""
    own = {"ASSAY_VENV": "", "WEB_CONCURRENCY": ""}  # as in a fresh shell
    began = time.monotonic()
    with up(clone / "var", root=clone, python=PYTHON, ml=ml, **own) as house:
        assert house.get("")[0] == 200
        yield house, time.monotonic() - began
        house.stop()


def is_installed(house: House) -> bool:
    """Return True once the bench worker is there, and the installer has ended.

    The installer compiles a kernel and the methods after the worker has started: for minutes of
    processor time on a small machine.
    """
    return bool(house.children("methods.worker")) and not house.children("install_ml")


def family(house: House) -> list[psutil.Process]:
    """Its process and all below it."""
    parent = psutil.Process(house.process.pid)
    return [parent, *parent.children(recursive=True)]


def seconds(house: House) -> dict[str, float]:
    """The processor seconds of each process by name, with those of its ended children."""
    return {
        f"{process.name()} {process.pid}": sum(process.cpu_times()) for process in family(house)
    }


if __name__ == "__main__":
    sys.exit(main())

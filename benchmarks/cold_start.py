"""How long a new user waits: `manage.py up` from a fresh clone to its first page.

    python3 benchmarks/cold_start.py [--runs 3]

Each run clones the checkout's HEAD, has no virtual environment and no data directory, and installs
everything the first page needs. The package cache is warm from the second run on; the target of
60 s is for a warm one. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = Path(sys.base_prefix) / "bin" / "python3"  # no environment's
TARGET = 60.0  # seconds


def main() -> int:
    """Measure, print, and fail over the target; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = [measure() for _ in range(parser.parse_args().runs)]
    print("run   environment    first page")
    for number, (environment, page) in enumerate(runs, start=1):
        print(f"{number:>3}   {environment:>9.1f} s   {page:>9.1f} s")
    median = statistics.median(page for _, page in runs)
    print(f"median {median:.1f} s to the first page; target {TARGET:.0f} s")
    return int(median > TARGET)


def measure() -> tuple[float, float]:
    """Seconds to a complete environment and to the first page, from a fresh clone."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "assay"
        git = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet"]
        subprocess.run([*git, str(ROOT), str(clone)], check=True)
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")
        }
        started = time.monotonic()
        process = subprocess.Popen(
            [PYTHON, "manage.py", "up", "--no-ml", "--port", "0"],
            cwd=clone,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            return _follow(process, started)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)


def _follow(process: subprocess.Popen[str], started: float) -> tuple[float, float]:
    assert process.stdout is not None
    ready, said = 0.0, []
    for line in process.stdout:
        said.append(line)
        if "installed" in line:
            ready = time.monotonic() - started
        if match := re.search(r"Assay is at +(\S+)", line):
            urllib.request.urlopen(match[1], timeout=30).read()
            return ready, time.monotonic() - started
    raise SystemExit("up ended before its first page:\n" + "".join(said))


if __name__ == "__main__":
    sys.exit(main())
